"""The SDK for scripts that need more than plain PySpark. It is optional: scripts run unchanged without it.

    from streamjob import job

    @job.on_finish("orders")                            # code that runs when a query ends
    def push_out():
        client.flush()

    seen = job.list_state("seen", query="orders")       # foreachBatch state, kept with the batch
    job.edge("orders", "totals")                        # an edge that the queries do not show
    job.bounded(job.MarkerFile("/in/_END"), "orders")   # an end that the source does not report

The order, for each query (FLIP-147, endInput, finish and close): last row → event-time timers →
`on_end_of_data` → `on_finish` → final checkpoint → `on_close`. A plain stop calls only `on_close`: the query
will resume, so it has not finished. If `on_end_of_data` or `on_finish` raises, the query fails and the next
attempt calls the hook again: until the final checkpoint has completed, a hook may be called more than once.
An exception in `on_close` is only logged.

Without the runtime, `python app.py` calls no hooks, keeps state in memory only, and ignores edges.

`job.shards(uid, parallelism)` declares a stage of several queries, see `shards`. A hook registered for the
stage's uid is called for each of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from enum import Enum

from . import bounds, state
from .bounds import Bound, KafkaEnd, MarkerFile
from .protocol.formats.records import OperatorKind
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
ONLY_QUERY = "main"  # stands for a query that the script does not name


class Moment(str, Enum):
    END_OF_DATA = "on_end_of_data"
    FINISH = "on_finish"
    CLOSE = "on_close"


_hooks: dict[tuple[str, Moment], list[Hook]] = defaultdict(list)
_edges: dict[tuple[str, str], None] = {}
_watchers: list[Callable[[str, str], object]] = []


def on_end_of_data(query: str = ONLY_QUERY) -> Callable[[Hook], Hook]:
    """Register a hook that runs when the query has processed its last row and all its timers have fired."""
    return _register(query, Moment.END_OF_DATA)


def on_finish(query: str = ONLY_QUERY) -> Callable[[Hook], Hook]:
    """Register a hook that flushes buffers: it is the last step before the final checkpoint."""
    return _register(query, Moment.FINISH)


def on_close(query: str = ONLY_QUERY) -> Callable[[Hook], Hook]:
    """Register a hook that releases resources after the final checkpoint has completed.

    It is called at every orderly end, including a stop.
    """
    return _register(query, Moment.CLOSE)


def list_state(name: str, query: str = ONLY_QUERY) -> State:
    """Declare state of the query's foreachBatch function.

    If the parallelism changes, its entries are redistributed. Keep it small: all states of a job together may
    hold 64 KiB. With one task, the three kinds of state are the same.

    :raises StateNameTaken: the name is empty, or the query uses it for an operator or for state of another
        kind.
    """
    return state.declare(OperatorKind.LIST, name, query)


def union_state(name: str, query: str = ONLY_QUERY) -> State:
    """As `list_state`, but if the parallelism changes, each task gets the entries of all tasks."""
    return state.declare(OperatorKind.UNION, name, query)


def broadcast_state(name: str, query: str = ONLY_QUERY) -> State:
    """As `list_state`, but the same in every task: if the parallelism changes, each task gets a copy."""
    return state.declare(OperatorKind.BROADCAST, name, query)


def bounded(bound: Bound, query: str = ONLY_QUERY) -> None:
    """Declare when the query's input ends, see `bounds`. The runtime checks once a second.

    :param bound: a `KafkaEnd`, a `MarkerFile`, or a function of the sources' end offsets of the last
        committed batch, parsed from Spark's offset log.
    :raises BadBound: the query already has a declared end, or `bound` is not callable.
    """
    bounds.bounded(bound, query)


def edge(writer: str, reader: str) -> None:
    """Declare that query `reader` reads what query `writer` writes.

    The reader then ends after the writer, and first processes all that the writer has left. Needed where the
    queries do not show the edge: foreachBatch, or a Kafka topic taken from a column. May be called before or
    after either query has started.

    :raises GraphCycle: the edge closes a cycle.
    :raises EdgeTooLate: the reader is already ending.
    :raises TransactionalUpstream: both have started, and the writer has a transactional sink.
    """
    for watcher in _watchers:
        watcher(writer, reader)
    _edges[writer, reader] = None


def edges() -> list[tuple[str, str]]:
    """All declared edges, as (writer, reader)."""
    return list(_edges)


def watch_edges(watcher: Callable[[str, str], object]) -> None:
    """Register a function that is called with each edge before it is recorded. It refuses one by raising."""
    _watchers.append(watcher)


def call(query: str, moment: Moment) -> int:
    """Call the hooks in the order of their registration. Exceptions of a hook propagate.

    :returns: the number of hooks called.
    """
    hooks = _hooks.get((query, moment), [])
    for hook in hooks:
        hook()
    return len(hooks)


def _register(query: str, moment: Moment) -> Callable[[Hook], Hook]:
    def register(hook: Hook) -> Hook:
        _hooks[query, moment].append(hook)
        return hook

    return register
