"""The runtime's side of `job.shards`: the stages that the script has declared."""

from __future__ import annotations

from collections.abc import Callable

from ....shards import BadShards, Entries, Shard, hadoop_files
from ..restore_point import RestorePoints
from .split_assignment import ShardedStage


class DeclaredStages:
    """The `shards.SplitAssigner` of the runtime. It assigns splits and knows which queries are shards.

    :param expect: called with a stage's uid and parallelism before any of its queries starts. It refuses the
        stage by raising.
    """

    def __init__(self, points: RestorePoints, expect: Callable[[str, int], None]) -> None:
        self._points = points
        self._expect = expect
        self._stages: dict[str, ShardedStage] = {}
        self._names: dict[str, Shard] = {}  # by query name

    def __contains__(self, uid: str) -> bool:
        return uid in self._stages

    def declare(self, uid: str, parallelism: int) -> None:
        """As `shards.SplitAssigner.declare`. May be repeated with the same parallelism.

        :raises BadShards: the stage was declared with another parallelism.
        :raises StreamJobError: `expect` refuses the stage.
        """
        known = self._stages.get(uid)
        if known is not None and known.parallelism != parallelism:
            raise BadShards(
                f"stage {uid!r} is declared with parallelism {known.parallelism} and with {parallelism}",
                remedy="Give each stage a name of its own",
            )
        if known is None:
            self._expect(uid, parallelism)
            self._stages[uid] = ShardedStage(
                self._points, uid, parallelism, lambda: hadoop_files(f"what stage {uid} has left to read")
            )
            shards = [Shard(uid, index, parallelism) for index in range(parallelism)]
            self._names.update({shard.name: shard for shard in shards})

    def assign(self, shard: Shard, key: str, all_of: Callable[[], Entries]) -> Entries:
        """As `shards.SplitAssigner.assign`.

        :raises StreamJobError: the stage cannot start with these splits.
        """
        return self._stages[shard.uid].assign(shard.index, key, all_of)

    def find(self, name: str | None) -> tuple[Shard, ShardedStage] | None:
        """The shard and the stage of the query with this name. None if the query is a stage of its own."""
        shard = self._names.get(name or "")
        return (shard, self._stages[shard.uid]) if shard else None

    def prepare(self, name: str | None) -> None:
        """Store the assignment of the stage that the query is a shard of. Does nothing for other queries.

        The query has been admitted and starts next.
        """
        if (found := self.find(name)) is not None:
            found[1].prepare()

    def shards(self) -> list[Shard]:
        """All declared shards, started or not."""
        return list(self._names.values())
