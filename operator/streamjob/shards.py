"""Stages with parallelism above 1: several queries over disjoint splits of one input, each a task of the stage.

    from streamjob import job

    for shard in job.shards("flights", 2):
        rows = spark.readStream.format("kafka").options(**shard.kafka("flights", partitions=4)).load()
        rows.writeStream.queryName(shard.name).format("parquet").start(f"/data/out/{shard.index}")

Under the runtime the splits are dealt out once. A stage that starts again with the same parallelism has the same shares;
with another one, what its unfinished tasks have left to read is dealt out anew (FLIP-147, list state of sources).
`python app.py` without the runtime deals evenly at each start.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from .protocol import finished, splits
from .protocol.errors import StreamJobError

if TYPE_CHECKING:
    from .runtime.storage.hadoop import HadoopFiles

Entries = Sequence[str]
# The file source looks a batch's files up by name, and takes all of them for each whose path could be a pattern
# (DataSource.checkAndGlobPathIfNecessary, Spark 4.0 and 4.1).
PATTERN = frozenset("{}[]*?\\")


class BadShards(StreamJobError):
    """A stage, or a split of its input, is not declared as it has to be."""

    reason = "BadShards"


class Dealer(Protocol):
    """Who deals: the runtime, or `Alone`."""

    def declare(self, uid: str, parallelism: int) -> None:
        """The stage will have so many tasks."""

    def deal(self, shard: Shard, key: str, all_of: Callable[[], Entries]) -> Entries:
        """The share of one task; `all_of` says what there is, `key` of what: `splits.key`, or `names`."""


@dataclass(frozen=True)
class Shard:
    """One task of a stage. `name` is the name that its query has to have."""

    uid: str
    index: int
    parallelism: int

    @property
    def name(self) -> str:
        return f"{self.uid}/{self.index}"

    def kafka(self, topic: str, *, partitions: int) -> dict[str, str]:
        """Options for Spark's Kafka source: this shard's partitions of a topic, and where they begin if they were read before.

        To be given after options of the script's own, because of `startingOffsets`.

        :param partitions: how many the topic has. More at a later start are dealt out when the parallelism changes.
        :raises BadShards: fewer partitions than shards; or other partitions than the stage was started with.
        """
        entries = _dealer.deal(
            self, f"kafka:{topic}", lambda: [splits.partition(topic, n) for n in range(partitions)]
        )
        if not entries:
            raise BadShards(
                f"nothing of topic {topic} is left for shard {self.index} of stage {self.uid!r}: it has parallelism "
                f"{self.parallelism}, and there are fewer partitions to read",
                remedy="Lower the parallelism",
            )
        return splits.kafka_options(entries)

    def files(self, folder: str) -> str:
        """A path for Spark's file source: this shard's files of those that lie in a folder when the stage first starts. The
        files that come later are not read. One folder for each stage, of some thousand files.

        :raises BadShards: the folder holds sub-folders, or files that Spark cannot read by name, or is not the only one.
        """
        return splits.glob(folder, _dealer.deal(self, "files", lambda: _files_in(folder)))

    def splits(self, names: Sequence[str]) -> tuple[str, ...]:
        """This shard's share of any names, to be read as the script likes: one list for each stage. How far they are read is
        only in Spark's own files, so a stage that has nothing else keeps its parallelism.

        :raises BadShards: they are not the names that the stage was started with.
        """
        return tuple(_dealer.deal(self, "names", lambda: list(names)))


def shards(uid: str, parallelism: int) -> tuple[Shard, ...]:
    """Declare a stage; its tasks in order. Each has to be started, under its name.

    :raises BadShards: there can be no such stage.
    """
    if not uid or parallelism < 1:
        raise BadShards(
            f"a stage needs a name and a parallelism of at least 1, not {uid!r} and {parallelism}",
            remedy="Mend the call of job.shards",
        )
    _dealer.declare(uid, parallelism)
    return tuple(Shard(uid, index, parallelism) for index in range(parallelism))


@dataclass
class Alone:
    """Without the runtime: dealt evenly, once for all shards of a process."""

    dealt: dict[tuple[str, int, str], tuple[tuple[str, ...], ...]] = field(default_factory=dict)

    def declare(self, uid: str, parallelism: int) -> None:
        """Nobody has to know."""

    def deal(self, shard: Shard, key: str, all_of: Callable[[], Entries]) -> Entries:
        of = (shard.uid, shard.parallelism, key)
        if of not in self.dealt:
            self.dealt[of] = finished.redistribute([all_of()], shard.parallelism)
        return self.dealt[of][shard.index]


_dealer: Dealer = Alone()


def deal_with(dealer: Dealer) -> None:
    """From now on: the runtime says so before it runs the script."""
    global _dealer  # noqa: PLW0603  what `shards` says has to do with the process, like the hooks of `job`
    _dealer = dealer


def hadoop_files(what: str) -> HadoopFiles:
    """Files as Spark sees them, for `what` is looked up. :raises BadShards: there is no session yet."""
    # Here, because `job` has nothing to do with Spark for scripts without shards.
    from pyspark.sql import SparkSession  # noqa: PLC0415

    from .runtime.storage.hadoop import HadoopFiles  # noqa: PLC0415

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
            f"{uri} holds the folder {wrong[0]}: shard.files() deals out the files of one folder",
            remedy="Name the folder that the files lie in, or deal the folders out with shard.splits()",
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
