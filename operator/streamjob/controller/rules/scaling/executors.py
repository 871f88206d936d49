"""The number of executors: a change reaches the running driver without a restart. Pure, a part of `decide`.

The driver reports the bounds that it was asked for last, so that is what a request is compared with. There is
nothing to record first: the bounds are the spec's, and a driver that is asked twice does nothing the second
time.
"""

from __future__ import annotations

from ....protocol.messages.commands import ExecutorsRequest
from ....protocol.messages.driver_status import TerminationStep
from ...reports.messages import cancels
from ..actions import SendExecutors
from ..context import Context
from ..observed import BEFORE_GATE

DYNAMIC = "spark.dynamicAllocation.enabled"
BATCHES_RUN = (None, TerminationStep.BOUNDARY, TerminationStep.MAX_WATERMARK)  # steps of a stop or drain


def request_to_send(c: Context) -> tuple[SendExecutors, ...]:
    """The request to send to the running driver, if it has not the bounds of the spec.

    A driver that was made for another way to choose the number keeps its own: it is about to be replaced, or
    a rollback has brought it back.
    """
    pod, driver, spec = c.observed.pod, c.observed.driver, c.observed.job.spec.executor
    made_from = pod.specification if pod is not None else None
    if made_from is None or driver is None or driver.executors is None:
        return ()
    wanted, asked = spec.numbers, (driver.executors.least, driver.executors.most)
    if wanted is None or wanted == asked or not made_from.executor.chooses_like(spec):
        return ()
    if made_from.executor.dynamic_allocation is None and made_from.spark_conf.get(DYNAMIC) == "true":
        return ()  # a job of an earlier operator, whose settings have its bounds
    return (SendExecutors(ExecutorsRequest(c.status.epoch, *wanted)),)


def lacking(c: Context) -> str:
    """What to tell if no executor has come. The queries wait, and only Spark's log says so."""
    wanted = _missing(c)
    if not wanted:
        return ""
    return (
        f", and none of the {wanted} executors that it wants is there yet. If that stays so, see "
        "`kubectl describe pods -l spark-role=executor`"
    )


def in_the_way(c: Context) -> str:
    """What to tell if a stop or drain waits for batches that no executor runs; begins with a space."""
    wanted, driver = _missing(c), c.observed.driver
    step = driver.termination.step if driver is not None and driver.termination is not None else None
    if driver is None or driver.phase in BEFORE_GATE or not wanted or step not in BATCHES_RUN:
        return ""
    name = c.observed.job.metadata.name
    return (
        f" No batch can run: none of the {wanted} executors that it wants is there. `kubectl streamjob "
        f"diagnose {name}` says whose move it is: Kubernetes' while their pods wait for a node, else yours. "
        f"{cancels(c.observed.job, c.status)}"
    )


def _missing(c: Context) -> int:
    """How many executors are wanted while there is none at all."""
    found = c.observed.driver.executors if c.observed.driver else None
    return 0 if found is None or found.running else found.wanted
