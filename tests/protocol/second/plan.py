"""A job at random: stages, shards and edges, and the script that starts them, the same in each epoch."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from random import Random

from streamjob.protocol.graph import task_id


class Kind(Enum):
    """When a query ends by itself."""

    LIVE = "live"
    BOUNDED = "bounded"  # the script declares the end of its sources
    AVAILABLE = "availableNow"


class Do(Enum):
    START = "start"
    WAIT = "wait"  # until the stage's runs are over
    STOP = "stop"  # query.stop()
    RETURN = "return"
    WAIT_FOR_ALL = "wait for all"  # then return


class Scope(Enum):
    """Which jobs are drawn. What fails in a narrower scope is simpler to understand."""

    ANY = "any"
    MARKED = (
        "marked"  # writers start first, and have windows: a flush leaves a mark in each of their directories
    )
    GENTLE = "gentle"  # no driver dies and no query fails once a max watermark has fired


@dataclass(frozen=True)
class StageSpec:
    """
    :param own: it reads rows that no stage writes.
    :param rows: of each shard's own source.
    :param commits: its sink is transactional. Nothing reads from it.
    :param windows: it holds every third row back until the max watermark.
    """

    uid: str
    parallelism: int
    upstream: tuple[str, ...]
    own: bool
    rows: int
    kind: Kind
    commits: bool
    windows: bool

    @property
    def tasks(self) -> tuple[str, ...]:
        return tuple(task_id(self.uid, i, self.parallelism) for i in range(self.parallelism))


@dataclass(frozen=True)
class Plan:
    """
    :param declares: the script declares its edges, so that each is known from the start.
    :param restarts: the script starts a failed query again; otherwise it dies with it.
    """

    seed: int
    stages: dict[str, StageSpec]
    script: tuple[tuple[Do, str], ...]
    declares: bool
    restarts: bool
    epochs: int
    concurrent: int
    scope: Scope = Scope.ANY

    def readers(self, uid: str) -> list[str]:
        return [s.uid for s in self.stages.values() if uid in s.upstream]

    def __str__(self) -> str:
        lines = [f"seed {self.seed}, {self.epochs} epochs, declares={self.declares} restarts={self.restarts}"]
        for s in self.stages.values():
            marks = [s.kind.value, *(["commits"] if s.commits else []), *(["windows"] if s.windows else [])]
            sources = [*s.upstream, *([f"{s.rows} rows"] if s.own else [])]
            lines.append(f"  {s.uid} x{s.parallelism} <- {', '.join(sources)}: {' '.join(marks)}")
        lines.append("  script: " + "; ".join(f"{do.value} {uid}".strip() for do, uid in self.script))
        return "\n".join(lines)


def draw(seed: int, scope: Scope = Scope.ANY) -> Plan:
    r, marked = Random(seed), scope is Scope.MARKED
    names = [chr(ord("a") + i) for i in range(r.randint(1, 5))]
    ups = {n: tuple(m for m in names[:i] if r.random() < 0.45) for i, n in enumerate(names)}
    read = {u for up in ups.values() for u in up}
    stages: dict[str, StageSpec] = {}
    for n in names:
        own = not ups[n] or r.random() < 0.2
        kind = r.choice(list(Kind)) if own else r.choice([Kind.LIVE, Kind.LIVE, Kind.AVAILABLE])
        shards = 1 if r.random() < 0.75 else r.randint(2, 3)
        commits = n not in read and r.random() < 0.6
        stages[n] = StageSpec(
            n, shards, ups[n], own, r.randint(0, 6), kind, commits, r.random() < 0.6 or (marked and n in read)
        )
    return Plan(
        seed,
        stages,
        _script(r, stages, shuffled=not marked),
        declares=r.random() < 0.2,
        restarts=r.random() < 0.3,
        epochs=r.randint(1, 6),
        concurrent=r.randint(1, 3),
        scope=scope,
    )


def _script(r: Random, stages: dict[str, StageSpec], *, shuffled: bool) -> tuple[tuple[Do, str], ...]:
    order = list(stages)
    if r.random() < 0.4 and shuffled:
        r.shuffle(order)  # readers may come before their writers
    steps: list[tuple[Do, str]] = []
    stopped = r.choice(order) if r.random() < 0.1 else None
    for uid in order:
        s = stages[uid]
        steps.append((Do.START, uid))
        ends = s.kind is Kind.AVAILABLE or (s.kind is Kind.BOUNDED and not s.upstream)
        if ends and r.random() < 0.4:
            steps.append((Do.WAIT, uid))
    if stopped is not None:
        at = r.randint(steps.index((Do.START, stopped)) + 1, len(steps))
        steps.insert(at, (Do.STOP, stopped))
    return (*steps, (r.choice([Do.RETURN, Do.WAIT_FOR_ALL]), ""))
