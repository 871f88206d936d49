"""Scheduler, kubelet, garbage collector and namespace controller: what makes pods run and end, and takes
objects whose owner is gone, or whose namespace.
"""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from streamjob.controller.objects import names
from streamjob.protocol.formats import codec
from streamjob.protocol.formats import index as indices
from streamjob.protocol.messages.driver_config import DriverConfig
from streamjob.protocol.times import timestamp
from streamjob.runtime.process.config import CheckpointNotMounted, with_stages

from .apiserver import Change, Key, Obj, Refusal, is_a_driver
from .driver import Driver

if TYPE_CHECKING:
    from .world import World

ME = "kubelet"
NAMESPACES = "user"  # the namespace controller does it for whoever deletes a namespace
RETRY = 10.0  # seconds until an image or a Secret that was not there is looked for again
NODE_OFF = 90.0  # seconds until a lost node's pods are declared over
ADDRESSES = 3  # so few that a new pod soon has an old one's


@dataclass
class Container:
    """Of a pod whose process lives."""

    key: Key
    driver: Driver
    ip: str
    started_at: str


class Kubelet:
    def __init__(self, world: World) -> None:
        self.world = world
        self.containers: dict[str, Container] = {}  # by the pod's uid, while their process lives
        self.lost: set[str] = set()  # pods whose node is off: nobody says how they are
        self._rng = Random(f"kubelet {world.plan.seed}")
        self._next = 0

    # --- what it sees ---------------------------------------------------------------------------------------

    def changed(self, change: Change) -> None:
        """Told after each write."""
        old, new = change.old, change.new
        if new is None:
            assert old is not None
            uid = old["metadata"]["uid"]
            self._later(0.5, 3.0, lambda: self._collect(uid))
            if (container := self.containers.get(uid)) is not None:
                container.driver.kill()  # deleted by force
        elif old is None:
            owners = {o["uid"] for o in new["metadata"].get("ownerReferences") or ()}
            known = {o["metadata"]["uid"] for o in self.world.server.objects.values()}
            for owner in owners - known:
                self._later(0.5, 3.0, lambda owner=owner: self._collect(owner))
            if change.key[0] == "pods" and is_a_driver(new):  # no node has room for executors
                self._later(0.1, 1.0, lambda: self._bind(change.key, new["metadata"]["uid"]))
        elif change.key[0] == "pods" and _grace(old) != _grace(new):
            self._terminate(change.key, new)

    def at(self, ip: str) -> Driver | None:
        """Who listens at this address."""
        found = [c.driver for c in self.containers.values() if c.ip == ip]
        return found[-1] if found else None

    def _address(self) -> str:
        """In turns, so far as they are free."""
        taken = {c.ip for c in self.containers.values()}
        many = max(ADDRESSES, len(taken) + 1)
        while True:
            self._next += 1
            if (ip := f"10.0.0.{self._next % many}") not in taken:
                return ip

    # --- a pod's life ---------------------------------------------------------------------------------------

    def _bind(self, key: Key, uid: str) -> None:
        if self._pod(key, uid) is None:
            return
        self.world.server.patch(ME, key, {"spec": {"nodeName": "node-1"}})
        self._later(0.2, 2.0, lambda: self._start(key, uid))

    def _start(self, key: Key, uid: str) -> None:
        pod = self._pod(key, uid)
        if pod is None or "deletionTimestamp" in pod["metadata"]:
            return
        (container,) = [c for c in pod["spec"]["containers"] if c["name"] == names.CONTAINER]
        volumes = [v["secret"]["secretName"] for v in pod["spec"]["volumes"] if "secret" in v]
        secret = self.world.server.objects.get(("secrets", key[1], volumes[0]))
        if container["image"].startswith("missing") or secret is None:
            reason = "CreateContainerConfigError" if secret is None else "ErrImagePull"
            self._say(key, "Pending", {"waiting": {"reason": reason, "message": "it is not there"}})
            self._later(RETRY, RETRY, lambda: self._start(key, uid))
            return
        maps = [v["configMap"] for v in pod["spec"]["volumes"] if "configMap" in v]
        there = {
            name for kind, where, name in self.world.server.objects if (kind, where) == ("configmaps", key[1])
        }
        if any(m["name"] not in there for m in maps if not m.get("optional")):
            self._later(RETRY, RETRY, lambda: self._start(key, uid))
            return
        started_at = timestamp(self.world.now())
        try:
            config = self._configuration(key, pod, container)
        except CheckpointNotMounted:
            self._say(key, "Running", {"running": {"startedAt": started_at}})
            self._over(key, uid, 2, "", started_at)
            return
        token = base64.b64decode(secret["data"][names.TOKEN_KEY]).decode()
        ip = self._address()
        self.world.oracle.container_starts(config, pod)
        over: Callable[[int, str], None] = lambda code, message: self._over(key, uid, code, message)  # noqa: E731
        driver = Driver(self.world, config, token, over, pod)
        if driver.alive:
            self.containers[uid] = Container(key, driver, ip, started_at)
        self._say(key, "Running", {"running": {"startedAt": started_at}}, ip)
        if not driver.alive:
            self._over(key, uid, 137, "", started_at)

    def _configuration(self, key: Key, pod: Obj, container: Obj) -> DriverConfig:
        """As the driver has it, from its environment and from the index that is mounted.

        :raises CheckpointNotMounted: the index that is mounted does not have it yet.
        """
        env = {e["name"]: e.get("value") for e in container["env"]}
        mounted = [v["configMap"] for v in pod["spec"]["volumes"] if v["name"] == "streamjob-index"]
        found = self.world.server.objects.get(("configmaps", key[1], mounted[0]["name"])) if mounted else None
        index = (found or {}).get("data", {}).get(indices.KEY, "")
        return with_stages(codec.loads(DriverConfig, env["STREAMJOB_CONFIG"]), index)

    def _over(self, key: Key, uid: str, code: int, message: str, started_at: str = "") -> None:
        container = self.containers.pop(uid, None)
        if container is None and not started_at:
            return
        ended = {
            "exitCode": code,
            "reason": "Error" if code else "Completed",
            "message": message,
            "startedAt": container.started_at if container else started_at,
            "finishedAt": timestamp(self.world.now()),
        }

        def say() -> None:
            pod = self._pod(key, uid)
            if pod is None:
                return None
            if _has_a_sidecar(pod):  # continues as if nothing had happened, until its own grace is over
                return self._say(key, "Running", {"terminated": ended})
            self._say(key, "Failed" if code else "Succeeded", {"terminated": ended})
            if "deletionTimestamp" in pod["metadata"]:
                self._later(0.1, 1.0, lambda: self._finish(key, uid))
            return None

        if uid in self.lost:
            self.world.later(NODE_OFF, lambda: self._finish(key, uid))
        else:
            self._later(0.1, 1.5, say)

    def _terminate(self, key: Key, pod: Obj) -> None:
        """It is being deleted, or sooner than it was."""
        meta = pod["metadata"]
        uid, grace = meta["uid"], float(meta["deletionGracePeriodSeconds"])
        container = self.containers.get(uid)
        if container is not None:
            container.driver.sigterm(grace)
            self.world.later(grace, container.driver.kill)
        if (container or "containerStatuses" in pod["status"]) and _has_a_sidecar(pod):
            self._later(grace, grace + 1.0, lambda: self._finish(key, uid))
        elif container is None and uid not in self.lost:
            self._later(0.1, 1.0, lambda: self._finish(key, uid))

    def _finish(self, key: Key, uid: str) -> None:
        self._delete(key, {"preconditions": {"uid": uid}, "gracePeriodSeconds": 0}, ME)

    # --- what befalls it ------------------------------------------------------------------------------------

    def lose_node(self, driver: Driver) -> None:
        """The machine is off: the process is gone, and nobody says so.

        In the end its pod is deleted by force.
        """
        self.lost |= {uid for uid, c in self.containers.items() if c.driver is driver}
        driver.waiters.clear()  # no connection is closed either
        driver.kill()

    def evict(self, driver: Driver) -> None:
        """As `kubectl drain` does it."""
        for uid, container in self.containers.items():
            if container.driver is driver:
                options = {"preconditions": {"uid": uid}}
                self.world.later(0.0, lambda c=container, o=options: self._delete(c.key, o, "eviction"))

    def _delete(self, key: Key, options: Obj, by: str) -> None:
        with contextlib.suppress(Refusal):  # it is gone
            self.world.server.delete(by, key, options)

    def _collect(self, owner: str) -> None:
        for key, obj in self.world.server.dependents(owner):
            self._delete(key, {"preconditions": {"uid": obj["metadata"]["uid"]}}, "garbage collector")

    def end_namespace(self, namespace: str) -> None:
        """Nothing new comes into it, and what is there is deleted, in no order, until nothing is left.

        It is made again then.
        """
        self.world.server.ending.add(namespace)
        keys = [k for k in self.world.server.objects if k[1] == namespace and k[0] != "leases"]
        if not keys:
            self.world.server.ending.discard(namespace)
            return
        for key in keys:
            self._later(0.1, 3.0, lambda key=key: self._delete(key, {}, NAMESPACES))
        self._later(4.0, 6.0, lambda: self.end_namespace(namespace))

    # --- helpers --------------------------------------------------------------------------------------------

    def _say(self, key: Key, phase: str, state: Obj, ip: str | None = None) -> None:
        status: dict[str, Any] = {
            "phase": phase,
            "containerStatuses": [{"name": names.CONTAINER, "state": state}],
        }
        pod = self.world.server.objects.get(key)
        if pod is not None and _has_a_sidecar(pod):
            # It runs even while the driver's image is not there.
            status["phase"] = "Running"
            status["containerStatuses"].insert(0, {"name": "proxy", "state": {"running": {}}})
        if ip is not None:
            status["podIP"] = ip
        self.world.server.patch(ME, key, {"status": status}, "status")

    def _pod(self, key: Key, uid: str) -> Obj | None:
        pod = self.world.server.objects.get(key)
        return pod if pod is not None and pod["metadata"]["uid"] == uid else None

    def _later(self, low: float, high: float, call: Callable[[], None]) -> None:
        self.world.later(low + self._rng.random() * (high - low), call)


def _has_a_sidecar(pod: Obj) -> bool:
    return len(pod["spec"]["containers"]) > 1


def _grace(obj: Obj) -> Any:
    return obj["metadata"].get("deletionGracePeriodSeconds")
