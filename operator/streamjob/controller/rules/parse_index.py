"""Parses the index from its ConfigMap."""

from __future__ import annotations

from functools import lru_cache

from ...api import StreamJob
from ...protocol.errors import FormatError
from ...protocol.formats import index as indices
from ...protocol.formats.index import Index
from ...protocol.messages.driver_status import Problem
from ..objects import Obj, names


def parse_index(config_map: Obj | None, job: StreamJob) -> tuple[Index | None, str | None, Problem | None]:
    """Read the index from its ConfigMap.

    :returns: the index, the ConfigMap's resourceVersion, and why the index cannot be used. All three are None
        for a job that has no checkpoint yet and no ConfigMap.
    """
    name = names.index_config_map(job.metadata.name)
    where = f"ConfigMap {name}"
    if config_map is None:
        if job.status.checkpoint is None:
            return None, None, None
        return (
            None,
            None,
            Problem(
                "IndexMissing",
                f"{where} is gone; it recorded checkpoint {job.status.checkpoint.latest} of this job",
                "Restore it from a backup, or make a new StreamJob with restoreFrom.savepoint",
            ),
        )
    version = str(config_map["metadata"]["resourceVersion"])
    owner = (config_map["metadata"].get("labels") or {}).get(names.LABEL_UID)
    if owner != job.metadata.uid:
        return (
            None,
            version,
            Problem(
                "NameTaken",
                f"{where} exists and belongs to something else",
                "Delete or rename it, or give the StreamJob another name",
            ),
        )
    try:
        index = _parsed((config_map.get("data") or {}).get(indices.KEY, ""), where)
    except FormatError as e:
        remedy = e.remedy or "Restore it from a backup, or make a new StreamJob with restoreFrom.savepoint"
        return None, version, Problem(e.reason, e.message, remedy)
    if index.job_uid != job.metadata.uid:
        problem = Problem(
            "ForeignIndex", f"{where} holds another job's index", "Restore this job's from a backup"
        )
        return None, version, problem
    return index, version, None


@lru_cache(maxsize=16)
def _parsed(text: str, where: str) -> Index:
    """Parse the index. Cached: it changes seldom and is read several times after each change.

    :raises FormatError: the text is malformed or of a newer version.
    """
    return indices.loads(text, where)


def parse_term(config_map: Obj | None) -> int:
    annotations = config_map["metadata"].get("annotations") if config_map else None
    text = (annotations or {}).get(names.ANNOTATION_TERM, "")
    return int(text) if text.isdigit() else 0
