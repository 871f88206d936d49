"""An entry of a query's offset log: what one batch reads, and the settings that it runs with. Pure.

    v1                        v2
    {"batchWatermarkMs":…}    {"batchWatermarkMs":…}
    {"logOffset":3}           orders:{"logOffset":3}
    -                         returns:-

From OffsetSeqLog, OffsetSeq and OffsetMap of org.apache.spark.sql.execution.streaming. Spark
writes format 2 on request (`FORMAT`, from 4.2 on) and, from 4.3 on, if the script names its sources
(`readStream.name("orders")`). It leaves out sources that have read nothing, and has the others in any order.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

VOID = "-"  # OffsetSeqLog.SERIALIZED_VOID_OFFSET
FORMAT = "spark.sql.streaming.offsetLog.formatVersion"
NAMES_SOURCES = "spark.sql.streaming.queryEvolution.enableSourceEvolution"

# A source's key → its position, one JSON text; None for a source that has read nothing. The key is the name
# that the script gave to the source or, if the sources have none, its number in the order of the plan.
Offsets = Mapping[str, str | None]


class BadEntry(ValueError):
    """The text is no entry of an offset log. The message says why, as the end of a sentence."""


@dataclass(frozen=True)
class OffsetLogEntry:
    """One batch.

    :param format: 1 or 2.
    :param metadata: watermark, time, and as `conf` the settings that the checkpoint pins.
    :param offsets: the position up to which the batch reads each source.
    """

    format: int
    metadata: Mapping[str, Any]
    offsets: Offsets

    @property
    def watermark(self) -> int:
        """Milliseconds since 1970."""
        return int(self.metadata["batchWatermarkMs"])

    @property
    def settings(self) -> Mapping[str, str]:
        """Spark's settings that the query runs with, whatever the session says (`relevantSQLConfs`)."""
        found = self.metadata.get("conf")
        return {str(k): str(v) for k, v in found.items()} if isinstance(found, dict) else {}

    @property
    def names_sources(self) -> bool:
        """Whether the keys are names that the script gave."""
        return self.format > 1 and self.settings.get(NAMES_SOURCES) == "true"

    def changed(self, **metadata: int) -> OffsetLogEntry:
        """The same offsets with other metadata."""
        return replace(self, metadata={**self.metadata, **metadata})

    def without_offsets(self) -> OffsetLogEntry:
        """The same sources, none of which has read anything."""
        return replace(self, offsets=dict.fromkeys(self.offsets))

    def serialize(self) -> bytes:
        lines = [f"v{self.format}", json.dumps(self.metadata, separators=(",", ":"))]
        for key, offset in self.offsets.items():
            lines.append(("" if self.format == 1 else f"{key}:") + (VOID if offset is None else offset))
        return "\n".join(lines).encode()


def parse(text: str) -> OffsetLogEntry:
    """The entry in a file of the offset log.

    :raises BadEntry: the text is cut off, or of another format.
    """
    first, *lines = text.split("\n")
    if first not in ("v1", "v2") or not lines:
        raise BadEntry("is no offset log entry of format 1 or 2")
    try:
        metadata = json.loads(lines[0])
    except ValueError:
        metadata = None
    if not isinstance(metadata, dict):
        raise BadEntry("is cut off or not JSON")
    if "batchWatermarkMs" not in metadata:
        raise BadEntry("has no watermark")
    positions = [line for line in lines[1:] if line]
    if first == "v1":
        found = {str(i): line for i, line in enumerate(positions)}
    else:
        if any(":" not in line for line in positions):
            raise BadEntry("has a position without its source's key")
        pairs = [line.partition(":") for line in positions]
        found = {key: position for key, _, position in sorted(pairs, key=lambda pair: _order(pair[0]))}
    offsets = {key: None if position == VOID else position for key, position in found.items()}
    return OffsetLogEntry(int(first[1:]), metadata, offsets)


def recovered(latest: OffsetLogEntry, before: OffsetLogEntry | None) -> Offsets:
    """From where a query reads each source when it starts again behind the batch `latest`.

    Spark takes a position that the last entry lacks from the one before
    (MicroBatchExecution.populateStartOffsets).
    """
    return {
        **(before.offsets if before else {}),
        **{k: v for k, v in latest.offsets.items() if v is not None},
    }


def _order(key: str) -> tuple[int, str]:
    """Numbers by their value, and names in the order of the alphabet."""
    return (int(key), "") if key.isdigit() else (0, key)
