"""Every StreamJob, as its source has it, in memory; and whoever wants to know of changes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from ..errors import CommandError
from .history import History
from .sources import JobSource

Obj = dict[str, Any]
RETRY_SECONDS = 2.0
FIRST_SECONDS = 10.0  # for the source to tell of every job once
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@dataclass(frozen=True)
class Change:
    """What differs from what a subscriber knows.

    :param jobs: new and changed ones.
    :param deleted: uids.
    :param problem: why jobs cannot be read at the moment: `message` and `remedy`. None: they can.
    :param nothing: what there is to say if there are no jobs.
    """

    jobs: tuple[Obj, ...] = ()
    deleted: tuple[str, ...] = ()
    problem: Obj | None = None
    nothing: str = ""


@dataclass
class Subscriber:
    """A page. It is told of the newest state of each job, however many changes there were in between."""

    jobs: Jobs
    _dirty: set[str] = field(default_factory=set)
    _fresh: bool = True  # it has been told nothing yet

    def touch(self, uids: Iterable[str]) -> None:
        self._dirty.update(uids)

    def next(self, timeout: float) -> Change | None:
        """What has changed since the last call; None if nothing has within so many seconds."""
        with self.jobs.changed:
            self.jobs.changed.wait_for(lambda: self._dirty or self._fresh, timeout)
            if not self._dirty and not self._fresh:
                return None
            known = self.jobs.by_uid
            changed = tuple(known[uid] for uid in self._dirty if uid in known)
            deleted = tuple(uid for uid in self._dirty if uid and uid not in known)
            self._dirty, self._fresh = set(), False
            return Change(changed, deleted, self.jobs.problem, self.jobs.nothing)


class Jobs:
    """The jobs of a source, kept up to date.

    `changed` guards everything and is notified of each change.
    """

    def __init__(self, source: JobSource, clock: Callable[[], float] = time.time) -> None:
        self.changed = threading.Condition()
        self.by_uid: dict[str, Obj] = {}
        self.problem: Obj | None = None
        self._read = False  # the source has told of every job, or cannot
        self._history = History()
        self._subscribers: list[Subscriber] = []
        self._source, self._clock = source, clock
        self._closed = threading.Event()

    @property
    def nothing(self) -> str:
        return self._source.nothing

    # --- for the answers ------------------------------------------------------------------------------------

    def find(self, namespace: str, name: str) -> Obj | None:
        """As soon as the server runs, it may be asked for a job of which its source has not told yet."""

        def known() -> Obj | None:
            return next((job for job in self.by_uid.values() if _key(job) == (namespace, name)), None)

        with self.changed:
            self.changed.wait_for(lambda: self._read or known() is not None, FIRST_SECONDS)
            return known()

    def history(self, uid: str, after: float = 0.0) -> dict[str, list[tuple[float, Obj]]]:
        with self.changed:
            return self._history.of(uid, after)

    def subscribe(self) -> Subscriber:
        with self.changed:
            subscriber = Subscriber(self)
            subscriber.touch(self.by_uid)
            self._subscribers.append(subscriber)
            return subscriber

    def unsubscribe(self, subscriber: Subscriber) -> None:
        with self.changed:
            self._subscribers.remove(subscriber)

    # --- from the source ------------------------------------------------------------------------------------

    def run(self) -> None:
        """Keep the jobs up to date until `close`. kubectl ends a watch now and then."""
        while not self._closed.is_set():
            try:
                self._source.follow(self)
            except CommandError as e:
                self._failed(e)
                self._closed.wait(RETRY_SECONDS)

    def close(self) -> None:
        self._closed.set()
        self._source.close()

    def replace(self, found: list[Obj]) -> None:
        """These jobs are there, and no others."""
        with self.changed:
            if self.problem is not None:
                self.problem = None
                self._tell([""])
            for uid in self.by_uid.keys() - {job["metadata"]["uid"] for job in found}:
                self.remove(uid)
            for job in found:
                self.put(job)
            self._read = True
            self.changed.notify_all()

    def put(self, job: Obj) -> None:
        """A job is new or has changed."""
        job["metadata"].pop("managedFields", None)
        (job["metadata"].get("annotations") or {}).pop(LAST_APPLIED, None)
        uid = job["metadata"]["uid"]
        with self.changed:
            if self.by_uid.get(uid) != job:
                self.by_uid[uid] = job
                self._history.add(job, self._clock())
                self._tell([uid])

    def answered(self, job: Obj, before: Obj) -> None:
        """The source's answer to a request that was made of `before`.

        If the watch has reported a change meanwhile, it has this state or a later one, or is about to.
        """
        with self.changed:
            if self.by_uid.get(job["metadata"]["uid"]) is before:
                self.put(job)

    def remove(self, uid: str) -> None:
        with self.changed:
            if self.by_uid.pop(uid, None) is not None:
                self._history.forget(uid)
                self._tell([uid])

    def _failed(self, error: CommandError) -> None:
        with self.changed:
            self.problem = {"message": error.message, "remedy": error.remedy}
            self._read = True
            self._tell([""])

    def _tell(self, uids: Iterable[str]) -> None:
        """Under the lock. "": the problem has changed."""
        for subscriber in self._subscribers:
            subscriber.touch(uids)
        self.changed.notify_all()


def _key(job: Obj) -> tuple[str, str]:
    return job["metadata"]["namespace"], job["metadata"]["name"]
