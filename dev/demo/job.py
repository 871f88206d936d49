"""One StreamJob as its user sees it: request a state, then follow the status until the job reaches it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from dev.demo.kubectl import Kubectl, Object
from dev.demo.waiting import Failure, TimedOut

KIND = "streamjobs.streamjob.dev"
Tell = Callable[[str], None]


@dataclass(frozen=True)
class View:
    """The parts of a StreamJob's status that a user looks at."""

    object: Object

    def _status(self, *path: str) -> Any:
        value: Any = self.object.get("status")
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        return value

    @property
    def phase(self) -> str:
        return str(self._status("phase") or "")

    @property
    def epoch(self) -> int:
        return int(self._status("epoch") or 0)

    @property
    def checkpoint(self) -> int:
        return int(self._status("checkpoint", "latest") or 0)

    @property
    def savepoint(self) -> str:
        return str(self._status("savepoint", "latest") or "")

    @property
    def drained(self) -> bool:
        return bool(self._status("savepoint", "drained"))

    @property
    def flushed(self) -> int | None:
        value = self._status("termination", "flushedRows")
        return None if value is None else int(value)

    @property
    def final_checkpoint(self) -> int | None:
        value = self._status("termination", "finalCheckpoint")
        return None if value is None else int(value)

    @property
    def termination(self) -> str:
        """Step and progress of the pending termination."""
        parts = (self._status("termination", name) for name in ("step", "progress"))
        return ": ".join(str(part) for part in parts if part)

    @property
    def stages(self) -> list[Object]:
        return list(self._status("stages") or [])

    @property
    def batch(self) -> int:
        """The newest batch of the first stage; -1 if there is none yet."""
        value = self.stages[0].get("batch") if self.stages else None
        return -1 if value is None else int(value)

    @property
    def watermark(self) -> str:
        return str((self.stages[0].get("watermark") if self.stages else "") or "")

    @property
    def observed(self) -> bool:
        """Whether the status refers to the current spec."""
        return bool(self._status("observedGeneration") == self.object["metadata"]["generation"])

    @property
    def error(self) -> Object:
        return dict(self._status("lastError") or {})

    def condition(self, kind: str) -> Object:
        found: list[Object] = self._status("conditions") or []
        return next((c for c in found if c["type"] == kind), {})

    @property
    def stalled(self) -> bool:
        return self.condition("Stalled").get("status") == "True"


class Job:
    """A StreamJob, by name."""

    def __init__(self, kubectl: Kubectl, name: str) -> None:
        self.kubectl = kubectl
        self.name = name

    def view(self) -> View:
        found = self.kubectl.get(KIND, self.name)
        if found is None:
            raise Failure(f"there is no StreamJob {self.name} in {self.kubectl.namespace}")
        return View(found)

    def ask(self, state: str) -> None:
        """Request a state with `kubectl patch`, as a user does."""
        self.kubectl.patch(KIND, self.name, {"spec": {"state": state}})

    def pod(self) -> str:
        """The name of the current driver's pod.

        :raises Failure: the job has no driver.
        """
        name = self.view().object.get("status", {}).get("driver", {}).get("pod")
        if not name:
            raise Failure(f"the StreamJob {self.name} has no driver")
        return str(name)

    def reach(self, phase: str, timeout: float, tell: Tell = lambda line: None) -> View:
        """Follow the job until it is in this phase and its status refers to the current spec."""
        return self.follow(lambda view: view.phase == phase and view.observed, phase, timeout, tell)

    def follow(
        self,
        enough: Callable[[View], bool],
        what: str,
        timeout: float,
        tell: Tell = lambda line: None,
        stalled: bool = False,
    ) -> View:
        """Follow the job and report each change, until the condition is met.

        :param enough: the condition.
        :param what: names the condition in the error message.
        :param tell: receives a line for each change.
        :param stalled: whether the job may stall in the meantime.
        :raises Failure: the job stalled.
        :raises TimedOut: the condition was not met in time.
        """
        before = view = None
        for document in self.kubectl.watch(KIND, self.name, timeout):
            view = View(document)
            for line in changes(before, view):
                tell(line)
            if enough(view):
                return view
            if view.observed and not stalled and view.stalled:
                condition = view.condition("Stalled")
                raise Failure(f"the job is stalled, {condition['reason']}: {condition['message']}")
            before = view
        seen = (
            f"phase {view.phase or 'none'}, {view.termination or 'no termination'}"
            if view
            else "nothing seen of it"
        )
        raise TimedOut(f"StreamJob {self.name}: not {what} within {timeout:.0f} s ({seen})")


def changes(before: View | None, now: View) -> Iterator[str]:
    """What changed between two views, one line per change."""

    def news(value: Callable[[View], object]) -> bool:
        return bool(value(now)) and (before is None or value(before) != value(now))

    if news(lambda v: v.termination) and now.phase in ("Stopping", "Draining"):
        yield f"{now.phase}: {now.termination}"
    elif news(lambda v: v.phase):
        condition = (
            now.condition("Reconciling") if now.condition("Reconciling").get("status") == "True" else {}
        )
        yield ": ".join(part for part in (now.phase, condition.get("message", "")) if part)
    if before is None:
        return
    if news(lambda v: v.error.get("time")):
        yield f"{now.error['reason']}: {now.error['message']}"
    if news(lambda v: v.checkpoint):
        yield f"checkpoint {now.checkpoint} of epoch {now.epoch} is in the index"
    if news(lambda v: v.savepoint):
        yield f"savepoint {now.savepoint}"
