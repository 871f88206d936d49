"""What must hold, told from what really happened and not from what `decide` thinks of it: reliability's V2 to
V12, and V13, that a change of the specification arrives, or is rolled back once, with a savepoint between.

It sees every write that the API server takes, every container that starts and every command that a driver
gets. The models' storage and processes are its truth; it imports nothing of the controller.
"""

from __future__ import annotations

from .apiserver import Change, is_a_driver
from .check_drivers import Drivers
from .check_end import End
from .check_index import Index
from .check_jobs import Jobs
from .check_pods import Pods


class Oracle(Jobs, Pods, Index, Drivers, End):
    """Hears of each write that the API server takes, and passes it on to who judges it."""

    def changed(self, change: Change) -> None:
        plural = change.key[0]
        obj = change.new or change.old
        assert obj is not None
        if plural == "streamjobs":
            self._job(change, self.truth(obj["metadata"]["uid"], change.key[2]))
            return
        owners = obj["metadata"].get("ownerReferences")
        if not owners or (plural == "pods" and not is_a_driver(obj)):
            return
        truth = self.truth(owners[0]["uid"])
        if change.old is None or change.new is None:
            self.made[f"{plural} {'made' if change.old is None else 'gone'}"] += 1
        if plural == "pods":
            self._pod(change, truth, owners[0]["uid"])
        elif plural == "configmaps":
            self._index(change, truth)
        elif plural == "secrets" and change.new is None and change.by == "user":
            truth.secret_lost = True
