"""Settings that a checkpoint pins: named where the job asks for other values, which have no effect.

A query runs with the values of its first batch, which every entry of its offset log repeats, because its
state was written with them (`OffsetSeqMetadata.relevantSQLConfs`; `setSessionConf` at each start). Spark says
so in its own log only.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from ....protocol.messages.driver_status import SETTING_PINNED, Problem
from ...spark.checkpoint_dir import CheckpointDir
from ...spark.session_conf import explicit

log = logging.getLogger("streamjob")

# Of a query without state, the others say nothing.
WITHOUT_STATE = frozenset({"spark.sql.shuffle.partitions"})


@dataclass(frozen=True)
class Pinned:
    """A setting that the job asks for in vain.

    :param value: in force.
    :param asked: for by the session.
    """

    key: str
    value: str
    asked: str

    def __str__(self) -> str:
        return f"{self.key} is {self.value} and stays so ({self.asked} is asked for)"


def in_vain(pinned: Mapping[str, str], asked: Mapping[str, str], *, has_state: bool) -> list[Pinned]:
    """The settings whose value in the session is not the one that is in force.

    :param pinned: the settings in the query's offset log.
    :param asked: what the script, `spec.sparkConf` or an image has set. A value that nobody set, a default of
        this Spark, is not asked for.
    """
    return [
        Pinned(key, value, asked[key])
        for key, value in sorted(pinned.items())
        if key in asked and asked[key].lower() != value.lower() and (has_state or key in WITHOUT_STATE)
    ]


def tell_pinned(directory: CheckpointDir) -> list[Problem]:
    """Warn of the settings that the query's checkpoint pins to other values.

    :returns: one warning at most.
    """
    latest = directory.latest_offset()
    if latest is None:
        return []
    pinned, asked = directory.entry(latest).settings, explicit(directory.files.spark)
    if not (found := in_vain(pinned, asked, has_state=directory.has_state())):
        return []
    text = f"{directory.uri} keeps settings of its first batch: {'; '.join(map(str, found))}"
    back = ", ".join(f"{p.key}={p.value}" for p in found)
    remedy = f"Set {back}, or let the query begin in a new checkpoint"
    log.warning("%s: %s. %s", SETTING_PINNED, text, remedy)
    return [Problem(SETTING_PINNED, text, remedy)]
