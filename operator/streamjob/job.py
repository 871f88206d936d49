"""For scripts that want to do something of their own when a query ends. Optional: a script without it behaves the same.

    from streamjob import job

    @job.on_finish("orders")
    def push_out():
        client.flush()

The order, for each query (FLIP-147, endInput, finish and close): last row → event-time timers → `on_end_of_data` →
`on_finish` → final checkpoint → `on_close`. On a plain stop the query will go on later, so it has not finished: only
`on_close` is called. What raises fails the job, and the next attempt calls it again: until the final checkpoint has completed,
a hook may be called more than once.

`python app.py` without the runtime calls no hook.

`job.shards(uid, parallelism)` declares a stage of several queries, see `shards`; a hook of its uid is called for each of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from enum import Enum

from .shards import Shard, shards

__all__ = [
    "ONLY_QUERY",
    "Hook",
    "Moment",
    "Shard",
    "call",
    "on_close",
    "on_end_of_data",
    "on_finish",
    "shards",
]

Hook = Callable[[], object]
ONLY_QUERY = "main"  # the name of a query that the script gave none


class Moment(str, Enum):
    END_OF_DATA = "on_end_of_data"
    FINISH = "on_finish"
    CLOSE = "on_close"


_hooks: dict[tuple[str, Moment], list[Hook]] = defaultdict(list)


def on_end_of_data(query: str = ONLY_QUERY) -> Callable[[Hook], Hook]:
    """No row will come to the query any more, and all its timers have fired."""
    return _register(query, Moment.END_OF_DATA)


def on_finish(query: str = ONLY_QUERY) -> Callable[[Hook], Hook]:
    """The last chance to push out what is buffered: the final checkpoint comes after it."""
    return _register(query, Moment.FINISH)


def on_close(query: str = ONLY_QUERY) -> Callable[[Hook], Hook]:
    """The final checkpoint has completed: give back what is held. Called on every orderly end, also on a stop."""
    return _register(query, Moment.CLOSE)


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
