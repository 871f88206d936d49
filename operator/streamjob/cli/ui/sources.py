"""Where the page's jobs come from. The server and the page know no more than this of it.

There are two: `cluster` (the user's kubectl) and `local` (folders of jobs that run without Kubernetes). Both
have jobs as the API server would have them, and parts as `plain` writes them.
"""

from __future__ import annotations

from typing import Any, Protocol

from .requests import Request

Obj = dict[str, Any]


class Listener(Protocol):
    """Who is told of jobs."""

    def replace(self, found: list[Obj]) -> None:
        """These jobs are there, and no others."""

    def put(self, job: Obj) -> None:
        """A job is new or has changed."""

    def remove(self, uid: str) -> None:
        """A job is gone."""


class JobSource(Protocol):
    """All jobs, and what changes."""

    @property
    def nothing(self) -> str:
        """What there is to say if there are no jobs."""

    def follow(self, listener: Listener) -> None:
        """Tell of every job, then of every change. Returns when it has to begin again, or is closed.

        :raises CommandError: jobs cannot be read.
        """

    def close(self) -> None:
        """End `follow`, in another thread."""


class DetailSource(Protocol):
    """What is read of one job only, when somebody asks for it; and what can be asked of a job."""

    def read(self, found: Obj) -> Obj:
        """Parts of the job's page: those that there are. One that cannot be read is `{"problem": …}`."""

    def diagnosis(self, found: Obj) -> Obj:
        """What is wrong with the job: `plain.diagnosis`.

        :raises CommandError: nothing can be read.
        """

    def savepoints(self, found: Obj) -> list[Obj]:
        """The savepoints that the storage has, with their sizes and what they do not share.

        :raises CommandError: they cannot be read.
        """

    def permissions(self, found: Obj) -> Obj:
        """What may be asked of the job: `plain.permissions`.

        :raises CommandError: nobody can say.
        """

    def request(self, found: Obj, wanted: Request) -> Obj:
        """Ask for it.

        :returns: the job as it is then.
        :raises CommandError: it is not allowed, not possible, or somebody was faster.
        """
