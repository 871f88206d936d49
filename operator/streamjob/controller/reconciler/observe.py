"""Reads a job: its StreamJob, driver pods and index from the API server, and the driver's last status.

The three reads are concurrent API calls; after a failure, a fourth one looks for executors that the driver
has left. Nothing comes from a watch: a watch may lag, and what follows may be destructive.

A list is slow while much is written: since Kubernetes 1.31 the API server answers it from its cache, after
waiting for etcd to confirm that the cache is up to date, which etcd does every 0.1 s. An object requested by
name comes from etcd within milliseconds. A request of the user that only has to reach the driver therefore
uses a fast-path read, `fast_path_read`, which reads the one pod by name (ADR 18).
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from ...api import Phase, StreamJob
from ..api_server.kube import Kube
from ..drivers.connections import DriverConnections
from ..objects import Obj, names
from ..rules.diagnosis import volumes_named
from ..rules.observed import ExecutorPod, Observed, Pod
from ..rules.parse_index import parse_index, parse_term
from ..rules.parse_pod import parse_pod

# In every other phase the status already has a report of the driver, so a running driver is about to answer.
UNHEARD = (None, Phase.PENDING, Phase.STARTING, Phase.RESTARTING)
EXECUTORS_AT_ONCE = 100  # of a failed driver; the next round deletes more


async def observe(
    kube: Kube, drivers: DriverConnections, namespace: str, name: str, uid: str | None
) -> Observed | None:
    """Read everything about a job.

    :param uid: the job's last known uid, by which the pods are selected; None if unknown.
    :returns: None if the job does not exist.
    """
    raw = kube.get_job(namespace, name)
    if uid is None:
        obj = await raw
        if obj is None:
            return None
        uid = str(obj["metadata"]["uid"])
        pods, config_map = await _parts(kube, namespace, name, uid)
    else:
        obj, (pods, config_map) = await asyncio.gather(raw, _parts(kube, namespace, name, uid))
        if obj is None:
            return None
        if obj["metadata"]["uid"] != uid:
            # The job was deleted and recreated under the same name: what was read belongs to the old one.
            return await observe(kube, drivers, namespace, name, None)
    seen = await with_missing(kube, _put_together(StreamJob.parse(obj), pods, config_map))
    pod = seen.pod
    if pod is None or pod.terminated:
        drivers.forget(uid)
        left = await _executors_left(kube, seen, pod)
        seen = replace(seen, driver=drivers.last_status(uid, seen.epoch), executors_left=left)
    else:
        seen = await _with_its_status(seen, pod, drivers)
    return await _with_standby(seen, drivers)


async def fast_path_read(
    kube: Kube, drivers: DriverConnections, namespace: str, name: str, uid: str, pod: str
) -> Observed | None:
    """The fast-path read: the job, its index and one driver pod, each by name, without a list.

    Other pods that should not exist remain unseen, so the result suffices to send a command to the driver,
    and for nothing else.

    :param pod: name of the pod of the newest epoch.
    :returns: None if this is not the recorded, live driver of this job; then use `observe`.
    """
    obj, found, config_map = await asyncio.gather(
        kube.get_job(namespace, name),
        kube.get_pod(namespace, pod),
        kube.get_config_map(namespace, names.index_config_map(name)),
    )
    if obj is None or found is None or obj["metadata"]["uid"] != uid:
        return None
    seen = replace(_put_together(StreamJob.parse(obj), [found], config_map), newest_only=True)
    known, there = seen.job.status.driver, seen.pod
    if known is None or there is None or known.uid != there.uid or there.terminated or there.deleting:
        return None
    return await _with_its_status(seen, there, drivers)


def _put_together(job: StreamJob, pods: list[Obj], config_map: Obj | None) -> Observed:
    index, version, problem = parse_index(config_map, job)
    parsed = sorted((p for p in map(parse_pod, pods) if p), key=lambda p: p.epoch)
    begun = Observed(job, tuple(p for p in parsed if not p.prepared), index).epoch
    # The status has an epoch before its gate opens. One that was lost does not know: then they may all have
    # begun.
    standbys = tuple(p for p in parsed if p.prepared and p.epoch > begun and job.status.epoch)
    drivers = tuple(p for p in parsed if p not in standbys)
    term = parse_term(config_map)
    return Observed(job, drivers, index, version, problem, index_term=term, standbys=standbys)


async def with_missing(kube: Kube, seen: Observed) -> Observed:
    """With what the volumes of a driver name and what is not there, while its node has not mounted them."""
    waits = {p.name for p in (*seen.pods, *seen.standbys) if p.unmounted_since is not None and not p.started}
    wanted = volumes_named(seen.job) if waits else []
    resources = {"ConfigMap": "configmaps", "Secret": "secrets"}  # of a claim, the scheduler says it
    known = [v for v in wanted if v.kind in resources]
    namespace = seen.job.metadata.namespace
    there = await asyncio.gather(*(kube.has(namespace, resources[v.kind], v.name) for v in known))
    missing = tuple(f"{v.kind} {v.name}" for v, found in zip(known, there, strict=True) if not found)
    if not missing:
        return seen
    pods, standbys = (
        tuple(replace(p, missing=missing) if p.name in waits else p for p in some)
        for some in (seen.pods, seen.standbys)
    )
    return replace(seen, pods=pods, standbys=standbys)


async def _with_standby(seen: Observed, drivers: DriverConnections) -> Observed:
    """With the status of the newest prepared driver."""
    meta = seen.job.metadata
    if not seen.standbys or seen.standbys[-1].terminated:
        drivers.forget_standby(meta.uid)
        return seen
    pod = seen.standbys[-1]
    view = drivers.follow_standby(meta.uid, meta.namespace, meta.name, pod.name, pod.ip, pod.epoch)
    if view.status is None and pod.started:
        view = await drivers.first_status(meta.uid, standby=True)
    return replace(seen, prepared=view.status, prepared_silent=view.silent)


async def _executors_left(kube: Kube, seen: Observed, pod: Pod | None) -> tuple[ExecutorPod, ...]:
    """Look for executors of a driver whose failure is recorded. Its pod, their owner, may stay."""
    meta, restarts = seen.job.metadata, seen.job.status.restarts
    if pod is None or not pod.over or restarts is None or restarts.epoch != pod.epoch:
        return ()
    made_from = pod.specification
    if made_from is not None and made_from.executor.numbers is None:
        return ()
    selector = names.executor_selector(meta.uid, pod.epoch)
    found = await kube.list_pods(meta.namespace, selector, limit=EXECUTORS_AT_ONCE)
    there = [e["metadata"] for e in found if "deletionTimestamp" not in e["metadata"]]
    return tuple(ExecutorPod(e["name"], e["uid"]) for e in there)


async def _with_its_status(seen: Observed, pod: Pod, drivers: DriverConnections) -> Observed:
    meta = seen.job.metadata
    view = drivers.follow(meta.uid, meta.namespace, meta.name, pod.name, pod.ip, pod.epoch)
    if view.status is None and pod.started and seen.job.status.phase not in UNHEARD:
        view = await drivers.first_status(meta.uid)
    return replace(seen, driver=view.status, silent=view.silent, acknowledged=view.acknowledged)


async def _parts(kube: Kube, namespace: str, name: str, uid: str) -> tuple[list[Obj], Obj | None]:
    return await asyncio.gather(
        kube.list_pods(namespace, names.driver_selector(uid)),
        kube.get_config_map(namespace, names.index_config_map(name)),
    )
