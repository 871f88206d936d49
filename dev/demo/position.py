"""How far a job's query has read, from Spark's own files. They are exact; the status has only periodic
figures.
"""

import json
from dataclasses import dataclass
from datetime import datetime, timezone

from dev.demo.job import Job

# Prints the newest committed batch of a job's only query: its number, then its entry in the offset log.
SHELL = """
commits=$(find /data/checkpoints/*-{name}-* -type d -name commits | head -n 1) &&
cd "${{commits%/commits}}" &&
batch=$(ls commits | grep -E '^[0-9]+$' | sort -n | tail -n 1) && echo "$batch" && cat "offsets/$batch"
"""


@dataclass(frozen=True)
class Position:
    """The last committed batch, the watermark it ran with, and the number of Kafka rows up to its end."""

    batch: int
    watermark: str
    rows: int


def read(job: Job, rows: int = 0, after_batch: int = -1) -> Position | None:
    """Read the position in the driver's pod.

    :returns: None while the position has fewer than `rows` rows, or is not beyond `after_batch`.
    """
    text = job.kubectl.run("exec", job.pod(), "--", "sh", "-c", SHELL.format(name=job.name), check=False)
    lines = text.split("\n")
    if len(lines) < 4 or not lines[0].isdigit():
        return None
    milliseconds = json.loads(lines[2])["batchWatermarkMs"]
    moment = datetime.fromtimestamp(milliseconds / 1000, timezone.utc)
    consumed = sum(sum(topic.values()) for topic in json.loads(lines[3]).values())
    found = Position(int(lines[0]), f"{moment:%Y-%m-%d %H:%M}", consumed)
    return found if found.rows >= rows and found.batch > after_batch else None
