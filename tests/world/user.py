"""What a user does with kubectl."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .apiserver import Obj, Refusal
from .permissions import Revoked

if TYPE_CHECKING:
    from .world import World

ME = "user"
NAMESPACE, NAME, OTHER = "shop", "orders", "refunds"
JOB = ("streamjobs", NAMESPACE, NAME)


UI: Obj = {
    "ingress": {"host": "orders.example.com"},
    "httpRoute": {"parentRefs": [{"name": "web"}], "path": "/orders"},
}


# Rows a second for each stage. A core does a hundred.
QUIET, BUSY = 10.0, 400.0
AUTOSCALE: Obj = {"min": 1, "max": 3, "stabilization": {"up": "10s", "down": "40s"}}


def _schedule(minutes: int) -> Obj:
    return {"cron": f"*/{minutes} * * * *", "timeout": "8m", "nonce": 1}


class User:
    def __init__(self, world: World) -> None:
        self.world, self.server = world, world.server
        self.granted = world.now()  # the controller has had all of its rights since

    def do(self, deed: str) -> None:
        """One of DEEDS. What the API server refuses, the user has been told."""
        self.world.note(ME, deed)
        try:
            DEEDS[deed](self)
        except Refusal as e:
            self.world.note(ME, f"is told {e.code} {e.message}")

    def apply(self, name: str = NAME) -> None:
        shape = self.world.plan.shape
        spec: Obj = {
            "state": "Running",
            "image": shape.image,
            "runtime": shape.runtime,
            "application": {"file": "/app.py"},
            "storage": {"checkpoints": "file:///data/cp", "savepoints": "file:///data/sp"},
            "checkpoint": {"interval": shape.interval},
            "savepoint": {
                "nonce": 1,
                **({"schedule": shape.schedule} if shape.schedule else {}),
                "retained": {"count": shape.retained} if shape.retained else {},
            },
            "termination": {
                "stopTimeout": "2m",
                "drainTimeout": "3m",
                "gracePeriod": "20s",
                "onDelete": shape.on_delete,
                "escalation": list(shape.escalation),
            },
            "restart": {
                "policy": shape.policy,
                "backoff": {"initial": "1s", "max": "20s"},
                "limit": 100,
                "failedDriversHistoryLimit": shape.history,
            },
            "driver": {
                "standby": shape.standby,
                **({"template": {"spec": {"containers": [{"name": "proxy"}]}}} if shape.sidecar else {}),
            },
            "executor": {"autoscale": AUTOSCALE} if shape.autoscale else {"instances": shape.executors},
            "upgrade": {"mode": shape.upgrade, "startTimeout": "1m", "probation": "20s"},
            **({"ui": UI} if shape.ui else {}),
            **({"schedule": _schedule(shape.rounds)} if shape.rounds else {}),
        }
        self.server.create(ME, "streamjobs", NAMESPACE, {"metadata": {"name": name}, "spec": spec})

    def patch(self, name: str = NAME, **spec: Any) -> None:
        self.server.patch(ME, ("streamjobs", NAMESPACE, name), {"spec": spec})

    def edit(self) -> None:
        """Something that a driver is made from."""
        self.patch(sparkConf={"edited": str(self.world.loop.time())})

    def run(self) -> None:
        """Another round, if the job has any."""
        if self.world.plan.shape.rounds and JOB in self.server.objects:
            nonce = self.server.objects[JOB]["spec"]["schedule"]["nonce"]
            self.patch(schedule={"nonce": nonce + 1})

    def delete(self, name: str = NAME) -> None:
        self.server.delete(ME, ("streamjobs", NAMESPACE, name), {})

    def delete_pod(self, grace: int | None = None) -> None:
        for pod in self.server.drivers():
            options = {} if grace is None else {"gracePeriodSeconds": grace}
            self.world.oracle.deleted_by_force(pod, grace)
            self.server.delete(ME, ("pods", NAMESPACE, pod["metadata"]["name"]), options)

    def hold_pods(self, finalizers: list[str] | None) -> None:
        """Somebody else's finalizer keeps the pods of drivers when they have ended."""
        for pod in self.server.drivers():
            key = ("pods", NAMESPACE, pod["metadata"]["name"])
            self.server.patch(ME, key, {"metadata": {"finalizers": finalizers}})

    def evict(self) -> None:
        """The driver that runs, and not the one that waits."""
        for driver in [d for d in self.world.drivers() if d.may_write]:
            self.world.kubelet.evict(driver)

    def kill_leader(self) -> None:
        """The process of the driver that runs gets SIGKILL: its memory was too small, say."""
        for driver in [d for d in self.world.drivers() if d.may_write]:
            driver.kill()

    def delete_all(self, plural: str) -> None:
        for obj in self.server.of_kind(plural):
            self.server.delete(ME, (plural, NAMESPACE, obj["metadata"]["name"]), {})

    def revoke(self, resource: str = "") -> None:
        """O12: somebody takes away what the controller may do with this, or all that it may do."""
        self.server.rights = Revoked("system:serviceaccount:ops:streamjob", resource=resource)

    def grant(self) -> None:
        self.server.rights, self.granted = self.world.rights, self.world.now()

    def delete_namespace(self) -> None:
        self.world.kubelet.end_namespace(NAMESPACE)

    def strip(self) -> None:
        """U8: somebody who has no patience with a deletion."""
        self.delete()
        self.server.patch(ME, JOB, {"metadata": {"finalizers": None}})


DEEDS: dict[str, Callable[[User], None]] = {
    "apply": User.apply,
    "again": User.apply,  # under the same name, if it is gone
    "Running": lambda u: u.patch(state="Running"),
    "Stopped": lambda u: u.patch(state="Stopped"),
    "Drained": lambda u: u.patch(state="Drained"),
    "Cancelled": lambda u: u.patch(state="Cancelled"),
    "run": User.run,
    "suspend": lambda u: u.patch(suspend=True),
    "unsuspend": lambda u: u.patch(suspend=False),
    "hide UI": lambda u: u.patch(ui={"ingress": None, "httpRoute": None}),
    "no UI": lambda u: u.patch(ui=None),
    "delete": User.delete,
    "delete pod": User.delete_pod,
    "kill pod": lambda u: u.delete_pod(0),
    "hold pods": lambda u: u.hold_pods(["example.com/audit"]),
    "let pods go": lambda u: u.hold_pods(None),
    "evict": User.evict,
    "kill leader": User.kill_leader,
    "no standby": lambda u: u.patch(driver={"standby": False}),
    "standby": lambda u: u.patch(driver={"standby": True}),
    "delete index": lambda u: u.delete_all("configmaps"),
    "delete secret": lambda u: u.delete_all("secrets"),
    "strip": User.strip,
    "delete namespace": User.delete_namespace,
    "edit": User.edit,
    "other": lambda u: u.apply(OTHER),
    "other Stopped": lambda u: u.patch(OTHER, state="Stopped"),
    "other Running": lambda u: u.patch(OTHER, state="Running"),
    "other Drained": lambda u: u.patch(OTHER, state="Drained"),
    "other deleted": lambda u: u.delete(OTHER),
    "revoke all": User.revoke,
    "revoke pods": lambda u: u.revoke("pods"),
    "revoke index": lambda u: u.revoke("configmaps"),
    "revoke status": lambda u: u.revoke("streamjobs/status"),
    "grant": User.grant,
    "fill storage": lambda u: setattr(u.world.storage, "full", True),
    "make room": lambda u: setattr(u.world.storage, "full", False),
    "broken script": lambda u: u.patch(sparkConf={"script": "broken"}),
    "throwing script": lambda u: u.patch(sparkConf={"script": "throws"}),
    "mend": lambda u: u.patch(image="jobs:1", sparkConf={"script": None, "mended": str(u.world.loop.time())}),
    "good script": lambda u: u.patch(sparkConf={"script": None}),
    "bad image": lambda u: u.patch(image="missing:1"),
    "good image": lambda u: u.patch(image="jobs:1"),
    "busy": lambda u: setattr(u.world, "rows_per_second", BUSY),
    "quiet": lambda u: setattr(u.world, "rows_per_second", QUIET),
    "one executor": lambda u: u.patch(executor={"instances": 1}),
    "two executors": lambda u: u.patch(executor={"instances": 2}),
    "scale": lambda u: u.patch(executor={"instances": 2 + int(u.world.loop.time()) % 900}),
    "savepoint": lambda u: u.patch(savepoint={"nonce": 2 + int(u.world.loop.time())}),
    "nonce": lambda u: u.patch(restart={"nonce": int(u.world.loop.time())}),
}
