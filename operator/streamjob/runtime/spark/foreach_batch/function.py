"""The function of a query's foreachBatch, as the runtime calls it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from . import threads

if TYPE_CHECKING:
    from ..handles import Table
    from ..stream_writer import Written


class BatchFunction:
    """The function that the script gave to foreachBatch(), with steps before and after it.

    The steps run inside the micro-batch: Spark commits the batch only when all of them are done, and runs it
    again if any of them raises. They are added once the query is a stage.
    """

    def __init__(self, function: Callable[[DataFrame, int], object]) -> None:
        self.given = function
        self.function = (
            function  # the function that is called; for a transactional sink it differs from the given one
        )
        self.before: list[Callable[[int], object]] = []
        self.after: list[Callable[[int], object]] = []
        # Called before each write of the function that `writes` observes.
        self.on_write: Callable[[Written, Table | None], object] = lambda written, table: None

    def __call__(self, frame: DataFrame, batch: int) -> None:
        with threads.batch_of(self):
            for step in self.before:
                step(batch)
            self.function(frame, batch)
            for step in self.after:
                step(batch)
