"""The named life-cycle cases: short scripts in cases/*.txt, each of them what happens and what must come of
it.

    row 4: what happens, in words
      start A
      start B < A               its upstream; also: commits=no, own=yes (it has other sources), drained=yes
      edge B < A                declared when B runs
      end A                     its input ends, and its effects are carried out until its data has ended
      boundary B 7 => FireMaxWatermark B
      do Finish B => -          carry out an effect; `=>`: exactly these effects come back, `-` is none
      run                       carry out all effects; `run until Close`: up to the first of these
      states A=Closed B=Running

The script has ended, unless a case begins with `script-runs`. All words are in `Script`. Effects are written
`Name task number`, `StoreCheckpoint 3 [A B]` (what is flagged as finished) and `AbortCheckpoint 3 /part of
the reason/`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from streamjob.protocol.engine import effects
from streamjob.protocol.engine.checkpoints.checkpoint import Checkpointing
from streamjob.protocol.engine.effects import Timer
from streamjob.protocol.errors import StreamJobError
from streamjob.protocol.messages.commands import Mode, TerminationRequest
from tests.protocol.engine.minimal_driver import DRAIN, STOP, Driver

WORDS = {
    "boundary": "boundary_reached",
    "fired": "max_watermark_fired",
    "finish": "finished",
    "closed": "closed",
    "input": "input_ended",
    "script-stops": "script_stopped",
    "fails": "task_failed",
    "due": "checkpoint_due",
    "snapshot": "snapshot_taken",
    "durable": "checkpoint_durable",
    "unwritable": "checkpoint_failed",
    "completed": "checkpoint_completed",
    "retry": "retry_due",
    "cancel": "cancel_requested",
    "script-ends": "script_ended",
    "script-blocked": "script_blocked",
}


@dataclass(frozen=True)
class Case:
    row: int
    title: str
    lines: tuple[str, ...]

    @property
    def id(self) -> str:
        return f"row{self.row}-{self.title}"


def load(directory: Path) -> list[Case]:
    return [case for file in sorted(directory.glob("*.txt")) for case in parse(file.read_text())]


def parse(text: str) -> Iterator[Case]:
    for block in re.split(r"\n\n+", text.strip("\n")):
        head, *lines = [line for line in block.split("\n") if not line.startswith("#")] or [""]
        if head:
            row, title = head.removeprefix("row ").split(": ", 1)
            yield Case(int(row), title, tuple(line.strip() for line in lines))


class Script:
    """Runs one case. Each method is a word; what it returns is what `=>` is compared with."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module
        self.fields: dict[str, Any] = {}
        self._driver: Driver | None = None

    def run_case(self, case: Case) -> None:
        for line in case.lines:
            step, arrow, expected = (part.strip() for part in line.partition("=>"))
            word, *args = step.split()
            if word == "refused":
                self._refused(args, expected)
                continue
            came = self._step(word, args)
            if arrow:
                wanted = [] if expected == "-" else [e.strip() for e in expected.split(",")]
                same = len(came) == len(wanted) and all(map(_matches, wanted, came))
                assert same, f"{case.id}\n  {line}\n  came: {', '.join(map(_text, came)) or '-'}"

    @property
    def driver(self) -> Driver:
        if self._driver is None:
            self._driver = Driver(self.module, **self.fields)
        return self._driver

    def _step(self, word: str, args: list[str]) -> list[Any]:
        if word in WORDS:
            return self.driver.tell(WORDS[word], *map(_value, args))
        found = getattr(self, "do_" + word.replace("-", "_"))(*args)
        return found if isinstance(found, list) else []

    def _refused(self, args: list[str], expected: str) -> None:
        reason, _, text = expected.partition(" ")
        with pytest.raises(StreamJobError) as e:
            self._step(args[0], args[1:])
        assert e.value.reason == reason
        assert text.strip("/") in e.value.message
        assert e.value.remedy, "an error says what to do"

    # --- before it starts -----------------------------------------------------------------------------------

    def do_settings(self, *pairs: str) -> None:
        values = {k: float(v) for k, _, v in (p.partition("=") for p in pairs)}
        if "max_concurrent" in values:
            values["max_concurrent"] = int(values["max_concurrent"])
        self.fields["settings"] = Checkpointing(**values)  # type: ignore[arg-type]

    def do_expect(self, *tasks: str) -> None:
        self.fields["expected"] = tasks

    def do_recorded(self, *edges: str) -> None:
        """Who read what in the restored checkpoint: `B<A`."""
        pairs = (edge.partition("<") for edge in edges)
        self.fields["edges"] = [(writer, reader) for reader, _, writer in pairs]

    def do_fresh(self) -> None:
        """What it resumes from is not the end of the job."""
        self.fields["fresh"] = True

    def do_script_runs(self) -> None:
        """It may start queries, also again, until `script-ends`."""
        self.fields["script_runs"] = True

    def do_round(self) -> None:
        """It is a round of a schedule."""
        self.fields["rounds"] = True

    def do_number(self, number: str) -> None:
        self.fields["next_checkpoint"] = int(number)

    # --- events ---------------------------------------------------------------------------------------------

    def do_shards(self, uid: str, parallelism: str) -> list[Any]:
        return self.driver.tell("stage_expected", uid, int(parallelism))

    def do_start(self, task: str, *rest: str) -> list[Any]:
        upstream = tuple(u for u in rest if u != "<" and "=" not in u)
        said = dict(word.split("=") for word in rest if "=" in word)
        names = {
            "commits": "commits",
            "own": "own_sources",
            "drained": "drained",
            "emits": "emits",
        }
        options = {names[key]: value == "yes" for key, value in said.items()}
        return self.driver.tell("task_started", task, upstream, **options)

    def do_restored(self, task: str, batch: str, *rest: str) -> list[Any]:
        return self.driver.tell(
            "task_restored_finished", task, tuple(u for u in rest if u != "<"), _value(batch)
        )

    def do_input_complete(self, task: str) -> list[Any]:
        return self.driver.tell("input_ended", task, rest=True)

    def do_exhausted(self, task: str, *rest: str) -> list[Any]:
        """Its trigger, availableNow or once, has taken all there was, and the query is over. With `rest`, it
        may have left something.
        """
        return self.driver.tell("run_ended", task, exhausted=True, rest="rest" in rest)

    def do_unknown(self, task: str, batch: str) -> list[Any]:
        """It is at a boundary, and whether it has read everything is not known."""
        return self.driver.tell("boundary_reached", task, _value(batch), rest=True)

    def do_gone(self, task: str) -> list[Any]:
        """The query is over, and nobody knows who stopped it."""
        return self.driver.tell("run_ended", task, exhausted=False)

    def do_edge(self, uid: str, _: str, upstream: str, *rest: str) -> list[Any]:
        return self.driver.tell("edge_declared", uid, upstream, own_sources="own=yes" in rest)

    def do_refuse_start(self, task: str, *rest: str) -> None:
        self.driver.c.refuse_start(task, tuple(u for u in rest if u != "<"))

    def do_reads(self, task: str, _: str, upstream: str, *rest: str) -> None:
        """It has started, and is found to read from what is about to start."""
        self.driver.c.reads(task, upstream, own_sources="own=yes" in rest)

    def do_all_started(self, *left: str) -> list[Any]:
        """:param left: what the restored checkpoint has, and the script may still start."""
        return self.driver.tell("all_started", left=left)

    def do_script_leaves(self, *left: str) -> list[Any]:
        """It ends without having started these."""
        return self.driver.tell("script_ended", left=left)

    def do_stop(self) -> list[Any]:
        return self.driver.tell("termination_requested", STOP)

    def do_drain(self) -> list[Any]:
        return self.driver.tell("termination_requested", DRAIN)

    def do_other(self) -> list[Any]:
        return self.driver.tell("termination_requested", TerminationRequest("r2", 1, Mode.STOP))

    def do_savepoint(self, request_id: str) -> list[Any]:
        return self.driver.tell("savepoint_requested", request_id, f"file:/savepoints/{request_id}")

    def do_timer(self, timer: str, number: str) -> list[Any]:
        return self.driver.tell("timer_fired", Timer(timer), int(number))

    # --- what the driver does -------------------------------------------------------------------------------

    def do_do(self, kind: str, task: str | None = None, number: str | None = None) -> list[Any]:
        if task is not None and task.isdigit():
            task, number = None, task
        return self.driver.do(getattr(effects, kind), task, int(number) if number else None)

    def do_run(self, *until: str) -> list[Any]:
        return self.driver.run(getattr(effects, until[1]) if until else None)

    def do_end(self, task: str) -> list[Any]:
        """Its input ends, unless its end has begun; then all until its data has ended."""
        came = self.driver.tell("input_ended", task)
        for kind in (effects.StopAtBoundary, effects.CatchUp, effects.FireMaxWatermark, effects.Finish):
            if any(type(e) is kind and e.task == task for e in self.driver.todo):
                came = self.driver.do(kind, task)
        return came

    def do_lose(self, kind: str) -> None:
        effect = next(e for e in self.driver.todo if type(e).__name__ == kind)
        self.driver.todo.remove(effect)

    # --- what is true now -----------------------------------------------------------------------------------

    def do_states(self, *pairs: str) -> None:
        found = {n: s for n, s in self.driver.states().items() if n in dict(p.split("=") for p in pairs)}
        assert found == dict(p.split("=") for p in pairs), found

    def do_saw(self, task: str, *kinds: str) -> None:
        found = [type(e).__name__ for e in self.driver.log if getattr(e, "task", None) == task]
        assert found == list(kinds), found

    def do_never(self, *wanted: str) -> None:
        assert not any(_matches(" ".join(wanted), e) for e in self.driver.log), wanted

    def do_once(self, *wanted: str) -> None:
        assert sum(_matches(" ".join(wanted), e) for e in self.driver.log) == 1, wanted

    def do_is(self, word: str) -> None:
        assert getattr(self.driver.c, word), f"not {word}"

    def do_isnt(self, word: str) -> None:
        assert not getattr(self.driver.c, word), word

    def do_awaits_commit(self, task: str) -> None:
        assert self.driver.c.awaits_commit(task), task

    def do_never_awaits_commit(self, task: str) -> None:
        assert not self.driver.c.awaits_commit(task), task

    def do_final(self, number: str) -> None:
        assert self.driver.c.final_checkpoint == _value(number), self.driver.c.final_checkpoint

    def do_step(self, task: str, step: str) -> None:
        assert self.driver.c.tasks[task].step.value == step, self.driver.c.tasks[task].step

    def do_operators(self, task: str, state: str) -> None:
        assert self.driver.c.tasks[task].operator.value == state, self.driver.c.tasks[task].operator

    def do_batches(self, number: str, *pairs: str) -> None:
        assert dict(self._awaiting_storage(number).batches) == _pairs(pairs)

    def do_consumed(self, number: str, *tasks: str) -> None:
        """Of which tasks checkpoint `number` says that they have read everything."""
        assert sorted(self._awaiting_storage(number).exhausted) == sorted(tasks)

    def do_pre_commit(self, number: str, *pairs: str) -> None:
        assert dict(self._awaiting_storage(number).pre_commit) == _pairs(pairs)

    def do_upstream(self, kind: str, task: str, *pairs: str) -> None:
        """What the last effect of this kind said of the batches upstream."""
        last = next(e for e in reversed(self.driver.log) if type(e).__name__ == kind and e.task == task)  # type: ignore[union-attr]
        assert dict(last.upstream) == _pairs(pairs)  # type: ignore[union-attr]

    def do_stored(self, number: str, *pairs: str) -> None:
        """What checkpoint `number` was stored for."""
        for key, value in (p.split("=") for p in pairs):
            found = getattr(self._awaiting_storage(number), key)
            assert str(getattr(found, "value", found)).lower() == value.lower(), (key, found)

    def _awaiting_storage(self, number: str) -> effects.StoreCheckpoint:
        log = self.driver.log
        (stored,) = [e for e in log if isinstance(e, effects.StoreCheckpoint) and e.number == int(number)]
        return stored


def _pairs(pairs: tuple[str, ...]) -> dict[str, Any]:
    return {k: _value(v) for k, v in (p.split("=") for p in pairs)}


def _value(text: str) -> Any:
    return None if text == "none" else int(text) if text.isdigit() else text


def _text(effect: Any) -> str:
    words = [type(effect).__name__]
    for field in ("timer", "task", "number", "after"):
        if hasattr(effect, field):
            found = getattr(effect, field)
            words.append(str(getattr(found, "value", found)))
    if isinstance(effect, effects.StoreCheckpoint):
        words.append(f"[{' '.join(sorted(effect.finished))}]")
    return " ".join(words)


def _matches(wanted: str, effect: Any) -> bool:
    wanted, _, reason = wanted.partition(" /")
    return _text(effect) == wanted and reason.strip("/") in getattr(effect, "reason", "")
