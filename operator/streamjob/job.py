"""For scripts that want more than plain PySpark. Optional: a script without it behaves the same.

    from streamjob import job

    @job.on_finish("orders")                            # code of its own when a query ends
    def push_out():
        client.flush()

    seen = job.list_state("seen", query="orders")       # what a foreachBatch function remembers, kept with the batch
    job.edge("orders", "totals")                        # who reads what whom writes, where the queries do not show it
    job.bounded(job.MarkerFile("/in/_END"), "orders")   # when its input has ended, where the source does not say

The order, for each query (FLIP-147, endInput, finish and close): last row → event-time timers → `on_end_of_data` →
`on_finish` → final checkpoint → `on_close`. On a plain stop the query will go on later, so it has not finished: only
`on_close` is called. What raises fails the job, and the next attempt calls it again: until the final checkpoint has completed,
a hook may be called more than once.

`python app.py` without the runtime calls no hook, keeps state in memory only, and knows no edges.

`job.shards(uid, parallelism)` declares a stage of several queries, see `shards`; a hook of its uid is called for each of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from enum import Enum

from . import bounds, state
from .bounds import Bound, KafkaEnd, MarkerFile
from .protocol.records import OperatorKind
from .shards import Shard, shards
from .state import State

__all__ = [
    "ONLY_QUERY",
    "Bound",
    "Hook",
    "KafkaEnd",
    "MarkerFile",
    "Moment",
    "Shard",
    "State",
    "bounded",
    "broadcast_state",
    "call",
    "edge",
    "edges",
    "list_state",
    "on_close",
    "on_end_of_data",
    "on_finish",
    "shards",
    "union_state",
    "watch_edges",
]

Hook = Callable[[], object]
ONLY_QUERY = "main"  # the name of a query that the script gave none


class Moment(str, Enum):
    END_OF_DATA = "on_end_of_data"
    FINISH = "on_finish"
    CLOSE = "on_close"


_hooks: dict[tuple[str, Moment], list[Hook]] = defaultdict(list)
_edges: dict[tuple[str, str], None] = {}
_watchers: list[Callable[[str, str], object]] = []


def on_end_of_data(query: str = ONLY_QUERY) -> Callable[[Hook], Hook]:
    """No row will come to the query any more, and all its timers have fired."""
    return _register(query, Moment.END_OF_DATA)


def on_finish(query: str = ONLY_QUERY) -> Callable[[Hook], Hook]:
    """The last chance to push out what is buffered: the final checkpoint comes after it."""
    return _register(query, Moment.FINISH)


def on_close(query: str = ONLY_QUERY) -> Callable[[Hook], Hook]:
    """The final checkpoint has completed: give back what is held. Called on every orderly end, also on a stop."""
    return _register(query, Moment.CLOSE)


def list_state(name: str, query: str = ONLY_QUERY) -> State:
    """State of the query's foreachBatch function. Its entries may be dealt out anew to another number of tasks.

    Small things only: all states of a job together hold 64 KiB. With one task the three kinds are the same.

    :raises StateNameTaken: the query has something else of this name.
    """
    return state.declare(OperatorKind.LIST, name, query)


def union_state(name: str, query: str = ONLY_QUERY) -> State:
    """As `list_state`; with another number of tasks, each gets the entries of all."""
    return state.declare(OperatorKind.UNION, name, query)


def broadcast_state(name: str, query: str = ONLY_QUERY) -> State:
    """As `list_state`; the same in every task, so that another number of tasks gets a copy each."""
    return state.declare(OperatorKind.BROADCAST, name, query)


def bounded(bound: Bound, query: str = ONLY_QUERY) -> None:
    """The query's input ends: see `bounds`. Looked at once a second.

    :param bound: a `KafkaEnd`, a `MarkerFile`, or a function of the sources' end offsets in the last committed batch, as they
        stand in Spark's offset log, parsed.
    :raises BadBound: the query has another one.
    """
    bounds.bounded(bound, query)


def edge(writer: str, reader: str) -> None:
    """Query `reader` reads what query `writer` writes, so it ends after it and takes all that it has left.

    For what the queries do not show: foreachBatch, or a Kafka topic from a column. Before or after either has started.

    :raises GraphCycle: they read from each other in a circle. :raises EdgeTooLate: the reader is ending already.
    """
    for watcher in _watchers:
        watcher(writer, reader)
    _edges[writer, reader] = None


def edges() -> list[tuple[str, str]]:
    """All that were declared, as (writer, reader)."""
    return list(_edges)


def watch_edges(watcher: Callable[[str, str], object]) -> None:
    """Be told of each edge when it is declared; what raises refuses it."""
    _watchers.append(watcher)


def call(query: str, moment: Moment) -> int:
    """Call the hooks in the order of their registration; how many there were. Raises what a hook raises."""
    hooks = _hooks.get((query, moment), [])
    for hook in hooks:
        hook()
    return len(hooks)


def _register(query: str, moment: Moment) -> Callable[[Hook], Hook]:
    def register(hook: Hook) -> Hook:
        _hooks[query, moment].append(hook)
        return hook

    return register
