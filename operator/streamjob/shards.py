"""Stages with parallelism above 1: several queries over disjoint splits of one input, one per task.

    from streamjob import job

    for shard in job.shards("flights", 2):
        rows = spark.readStream.format("kafka").options(**shard.kafka("flights", partitions=4)).load()
        rows.writeStream.queryName(shard.name).format("parquet").start(f"/data/out/{shard.index}")

The runtime assigns the splits once. A stage that restarts with the same parallelism keeps its shares. With
another parallelism, the remaining splits of the unfinished tasks are redistributed (FLIP-147, list state of
sources). Without the runtime, `python app.py` assigns the splits evenly at each start.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from .protocol.errors import StreamJobError
from .protocol.formats import splits
from .protocol.restore import finished

if TYPE_CHECKING:
    from .storage.hadoop import HadoopFiles

Entries = Sequence[str]
# The file source resolves a batch's files by path. For each path that could be a glob pattern, it takes all
# files of the batch, so files are read several times.
# (DataSource.checkAndGlobPathIfNecessary, Spark 4.0 and 4.1)
PATTERN = frozenset("{}[]*?\\")


class BadShards(StreamJobError):
    """The declaration of a stage, or of its splits, is invalid."""

    reason = "BadShards"


class SplitAssigner(Protocol):
    """Assigns splits to shards: the runtime's implementation, or `Alone`."""

    def declare(self, uid: str, parallelism: int) -> None:
        """Announce a stage with `parallelism` tasks."""

    def assign(self, shard: Shard, key: str, all_of: Callable[[], Entries]) -> Entries:
        """The share of one task.

        :param key: which input is divided: a value of `splits.key`, or `names`.
        :param all_of: returns all entries of that input.
        """


@dataclass(frozen=True)
class Shard:
    """One task of a stage. Its query must be started under `name`."""

    uid: str
    index: int
    parallelism: int

    @property
    def name(self) -> str:
        return f"{self.uid}/{self.index}"

    def kafka(self, topic: str, *, partitions: int) -> dict[str, str]:
        """Options for Spark's Kafka source: this shard's partitions of a topic.

        They include the positions of partitions that were read before. Apply them after the script's own
        options, because they may set `startingOffsets`.

        :param partitions: number of partitions of the topic. Partitions added later are assigned when the
            parallelism changes.
        :raises BadShards: no partition is left for this shard, or the topic has partitions that the stage did
            not start with.
        """
        entries = _assigner.assign(
            self, f"kafka:{topic}", lambda: [splits.partition(topic, n) for n in range(partitions)]
        )
        if not entries:
            raise BadShards(
                f"nothing of topic {topic} is left for shard {self.index} of stage {self.uid!r}: it has "
                f"parallelism {self.parallelism}, and there are fewer partitions to read",
                remedy="Lower the parallelism",
            )
        return splits.kafka_options(entries)

    def files(self, folder: str) -> str:
        """A path for Spark's file source that matches this shard's share of the files in a folder.

        The files are those present when the stage first starts. Files that are added later are not read. A
        stage has one folder, of some thousand files.

        :raises BadShards: the folder contains a sub-folder, the log of Spark's file sink, or a file that
            Spark cannot read by name; or the stage reads another folder already.
        """
        first = _folders.get(self.uid, folder.rstrip("/"))
        if first != folder.rstrip("/"):
            raise BadShards(
                f"stage {self.uid!r} reads the files of {first}, and of {folder} too: a stage has one folder",
                remedy="Declare another stage for the other folder, or assign the names of all files with "
                "shard.splits()",
            )
        share = _assigner.assign(self, "files", lambda: _files_in(folder))
        _folders[self.uid] = folder.rstrip("/")
        return splits.glob(folder, share)

    def splits(self, names: Sequence[str]) -> tuple[str, ...]:
        """This shard's share of arbitrary names, which the script reads as it likes.

        A stage has one such list. Only Spark's own files record how far the names are read, so a stage that
        has no other splits must keep its parallelism.

        :raises BadShards: there is a name that the stage did not start with.
        """
        return tuple(_assigner.assign(self, "names", lambda: list(names)))


def shards(uid: str, parallelism: int) -> tuple[Shard, ...]:
    """Declare a stage. The script must start a query for each shard, under the shard's name.

    :returns: the shards in the order of their indices.
    :raises BadShards: the uid is empty, the parallelism is below 1, or the stage has another parallelism
        already.
    """
    if not uid or parallelism < 1:
        raise BadShards(
            f"a stage needs a name and a parallelism of at least 1, not {uid!r} and {parallelism}",
            remedy="Fix the call of job.shards",
        )
    _assigner.declare(uid, parallelism)
    _folders.pop(uid, None)
    return tuple(Shard(uid, index, parallelism) for index in range(parallelism))


@dataclass
class Alone:
    """Without the runtime: assigns the splits evenly, once per process."""

    assigned: dict[tuple[str, int, str], tuple[tuple[str, ...], ...]] = field(default_factory=dict)

    def declare(self, uid: str, parallelism: int) -> None:
        """Nothing to announce."""

    def assign(self, shard: Shard, key: str, all_of: Callable[[], Entries]) -> Entries:
        of = (shard.uid, shard.parallelism, key)
        if of not in self.assigned:
            self.assigned[of] = finished.redistribute([all_of()], shard.parallelism)
        return self.assigned[of][shard.index]


_assigner: SplitAssigner = Alone()
_folders: dict[str, str] = {}  # the folder of each stage that calls `Shard.files`, by uid


def assign_with(assigner: SplitAssigner) -> None:
    """Let `assigner` assign all splits from now on. The runtime calls this before it runs the script."""
    global _assigner  # noqa: PLW0603  one per process, like the hooks of `job`
    _assigner = assigner


def hadoop_files(what: str) -> HadoopFiles:
    """Files as Spark sees them.

    :param what: what is looked up, for the error message.
    :raises BadShards: there is no session yet.
    """
    # Imported here so that `job` loads Spark only for scripts that need files.
    from pyspark.sql import SparkSession  # noqa: PLC0415

    from .storage.hadoop import HadoopFiles  # noqa: PLC0415

    spark = SparkSession.getActiveSession() or SparkSession._instantiatedSession
    if spark is None:
        raise BadShards(
            f"{what} is looked up with Spark, and there is no session",
            remedy="Make the SparkSession before the first call of a shard",
        )
    return HadoopFiles(spark)


def _files_in(folder: str) -> Entries:
    hadoop = hadoop_files(f"what lies in {folder}")
    uri = hadoop.qualify(folder).rstrip("/")
    everything = hadoop.list(uri)
    if any(f.path == "_spark_metadata" for f in everything):
        raise BadShards(
            f"{uri} is written by Spark's file sink, whose log says which of its files count",
            remedy="Read it as a stage without shards",
        )
    found = [f for f in everything if not f.path.startswith((".", "_"))]
    if wrong := [f.path for f in found if f.is_dir]:
        raise BadShards(
            f"{uri} holds the folder {wrong[0]}: shard.files() divides the files of one folder",
            remedy="Name the folder that contains the files, or divide the folders with shard.splits()",
        )
    if odd := [f.path for f in found if not PATTERN.isdisjoint(f"{uri}/{f.path}")]:
        raise BadShards(
            f"{uri} holds {odd[0]!r}: where a path has one of {' '.join(sorted(PATTERN))} Spark reads "
            "the files of a batch several times",
            remedy="Rename the file, or the folder",
        )
    if strange := [f.path for f in found if ":" in f.path]:
        raise BadShards(
            f"{uri} holds {strange[0]!r}: Hadoop finds no file by a pattern where a name has a colon",
            remedy="Rename it",
        )
    return [splits.file(f"{uri}/{f.path}") for f in sorted(found, key=lambda f: f.path)]
