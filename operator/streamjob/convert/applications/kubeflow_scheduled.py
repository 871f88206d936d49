"""ScheduledSparkApplications of Kubeflow's Spark operator: a StreamJob with `spec.schedule`."""

from __future__ import annotations

from pydantic import TypeAdapter, ValidationError

from ...api.types import Cron, TimeZone
from ..draft import Draft, Places
from ..source import Obj, Refused, Source
from . import kubeflow

TEMPLATE = (*kubeflow.SPEC, "template")
CRON: TypeAdapter[str] = TypeAdapter(Cron)
ZONE: TypeAdapter[str] = TypeAdapter(TimeZone)
HISTORY = "a StreamJob is one object for all rounds: see its Events, and restart.failedDriversHistoryLimit"


def convert(source: Source, places: Places) -> tuple[str, Obj, Draft]:
    """As `kubeflow.convert`, of the template.

    :raises Refused: as there, or the schedule is none of a CronJob's.
    """
    cron, zone = (*kubeflow.SPEC, "schedule"), (*kubeflow.SPEC, "timeZone")
    part = Source({"metadata": source.get(("metadata",), {}), "spec": source.get(TEMPLATE, {})})
    name, metadata, draft = kubeflow.convert(part, places)
    source.adopt(part, TEMPLATE)
    try:
        draft.put("schedule.cron", CRON.validate_python(source.get(cron)))
    except ValidationError as e:
        raise Refused(
            f"its schedule {source.get(cron)!r} {e.errors()[0]['msg'].removeprefix('Value error, ')}",
            remedy="Write it with five fields, and convert it again",
        ) from None
    source.kept(cron, "spec.schedule.cron")
    try:
        draft.put("schedule.timeZone", ZONE.validate_python(source.get(zone)))
        source.kept(zone, "spec.schedule.timeZone")
    except ValidationError:
        source.unneeded(zone, "it is that of the old operator's pod, see spec.schedule.timeZone")
        source.default("spec.schedule.timeZone", "unset is UTC; it was that of the old operator's pod")
    if source.get((*kubeflow.SPEC, "suspend")) is not None:
        draft.put("suspend", source.get((*kubeflow.SPEC, "suspend")))
        source.kept((*kubeflow.SPEC, "suspend"), "spec.suspend")
    _concurrency(source)
    for field in ("successfulRunHistoryLimit", "failedRunHistoryLimit"):
        source.dropped((*kubeflow.SPEC, field), HISTORY)
    source.dropped(("status",), "it is that of the old operator")
    source.decide(
        "spec.application",
        "each query has trigger(availableNow=True): a round ends when they have read what there is, and "
        "windows stay open for the next one. A batch job without streams stays where it is, or becomes a "
        "CronJob",
    )
    return name, metadata, draft


def _concurrency(source: Source) -> None:
    """The default of the Kubeflow operator is Allow."""
    path, policy = (*kubeflow.SPEC, "concurrencyPolicy"), source.get((*kubeflow.SPEC, "concurrencyPolicy"))
    if policy == "Forbid":
        source.unneeded(path, "two rounds of a StreamJob never run at once")
        return
    told = "two rounds never run at once: a time that comes during a round is made up for when that is over"
    if policy == "Replace":
        told = "a round that runs is not replaced: another one begins when it is over"
    if policy:
        source.changed(path, "spec.schedule", told)
    else:
        source.default("spec.schedule", told)
