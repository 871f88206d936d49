"""Plays a plan: epochs that crash, are stopped, drained or canceled, then one that is not disturbed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from streamjob.protocol.engine.coordinator import Coordinator
from streamjob.protocol.errors import StreamJobError
from streamjob.protocol.formats.records import CheckpointRecord
from streamjob.protocol.lifecycle import Scenario

from .epoch import Crash, Epoch, Mood, ScriptFailed
from .oracle import Violation, exactly_once
from .plan import Plan, Scope, draw
from .world import World

Engine = Callable[..., Coordinator]
ENDS = 8  # calm epochs in a row after which a job that has not ended never will


@dataclass(frozen=True)
class Failure:
    seed: int
    scope: Scope
    said: str

    def __str__(self) -> str:
        replay = f"python -m tests.protocol.second --scope {self.scope.value} --seed {self.seed}"
        return f"seed {self.seed}: {self.said}\n    {replay}"


def play(
    seed: int,
    scope: Scope = Scope.ANY,
    engine: Engine = Coordinator,
    say: Callable[[str], None] | None = None,
) -> Failure | None:
    """
    :returns: what is wrong, None if nothing is.
    """
    plan = draw(seed, scope)
    tell = say or (lambda _: None)
    tell(str(plan))
    try:
        _play(plan, engine, tell)
    except (Violation, StreamJobError) as e:
        return Failure(seed, scope, f"{type(e).__name__}: {e}")
    except Exception as e:  # the engine's own assertions, too
        if say is not None:
            raise
        return Failure(seed, scope, f"{type(e).__name__}: {e!r}")
    return None


def _play(plan: Plan, engine: Engine, say: Callable[[str], None]) -> None:
    random = Random(f"epochs {plan.seed}")
    world = World.new(plan)
    for number in range(1, plan.epochs + 1):
        if _epoch(world, number, random, _mood(random), engine, say):
            break
    worlds = [("the job", world)]
    if random.random() < 0.3 and world.index is not None and _is_whole(world, world.index):
        worlds.append(("another job, from the latest checkpoint", world.restored_from(world.index)))
    for what, of in worlds:
        say(f"--- {what}, undisturbed")
        _end(of, plan.epochs + 1, random, engine, say)


def _end(world: World, number: int, random: Random, engine: Engine, say: Callable[[str], None]) -> None:
    refused: list[str] = []
    for n in range(number, number + ENDS):
        if _is_over(world):
            exactly_once(world)
            return
        try:
            # What is refused in a job that goes on is drained if that is asked for before the script starts.
            asks = "Drain" if n > number or random.random() < 0.7 else ""
            _epoch(world, n, random, Mood(asks, at_once=bool(refused) or n > number, calm=True), engine, say)
        except ScriptFailed as e:
            refused.append(str(e))
            if len(refused) > 2:
                raise Violation(f"no epoch can begin with the record: {e}") from e
    if _is_over(world):
        exactly_once(world)
        return
    raise Violation("the job never ends")


def _is_over(world: World) -> bool:
    record = world.index
    if record is None or record.uncommitted:
        return False
    # "A drain leaves stages that the script itself stopped as they are": they are never flagged.
    return record.over or (bool(world.stopped or world.late) and record.scenario is Scenario.DRAIN)


def _is_whole(world: World, record: CheckpointRecord) -> bool:
    """Whether the checkpoint has every stage that has run. After a crash, one may have yet to start."""
    known = {s.uid for s in record.stages}
    return all(d.latest is None or d.spec.uid in known for d in world.directories.values())


def _mood(random: Random) -> Mood:
    return Mood(
        random.choice(["", "", "Stop", "Stop", "Drain", "Drain", "Drain", "Cancel"]),
        crashes=random.choice([0, 0.002, 0.01, 0.02]),
        fails=random.choice([0, 0, 0, 0.01]),
        stores_fail=random.choice([0, 0, 0.2]),
        early=random.random() < 0.5,
    )


def _epoch(
    world: World, number: int, random: Random, mood: Mood, engine: Engine, say: Callable[[str], None]
) -> bool:
    """
    :returns: whether the job is over.
    """
    say(f"epoch {number}: {mood}")
    epoch = Epoch(world, number, random, mood, say, engine)
    try:
        how = epoch.play()
    except Crash as e:
        say(f"  crash: {e}")
        if mood.calm and isinstance(e, ScriptFailed):
            raise
        return False
    finally:
        world.next_checkpoint = max(world.next_checkpoint, epoch.coordinator.next_checkpoint)
    say(f"  {how}")
    if how == "terminated" and not epoch.oracle.canceled and world.index is not None:
        world.index = world.index.committed
    return _is_over(world)
