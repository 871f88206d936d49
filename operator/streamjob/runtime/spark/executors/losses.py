"""What the last executor died of. If too many die, Spark ends its context, and a query hears only of that."""

from __future__ import annotations

import re
from typing import ClassVar

from ....jvm.errors import line_with
from ....protocol.errors import StreamJobError

Removed = tuple[str, str]  # an executor: its id, and why Spark has removed it

END_OF_CONTEXT = ("sparkcontext was shut down", "stopped sparkcontext")  # in errors, in lower case
WANTED = re.compile(r"decommission|killed by driver", re.IGNORECASE)  # Spark or the job let it go
NOTHING = re.compile(r"The API gave the following (?:brief reason|message): N/A\s*")
LONGEST = 400  # characters of a reason


class ExecutorsLost(StreamJobError):
    """Spark has ended its context, and executors had died shortly before."""

    reason: ClassVar[str] = "ExecutorsLost"
    retryable = True


def last_words(removed: tuple[Removed, ...]) -> str:
    """Which executor died last, and of what, in one line; empty if none has. Its exit code comes first.

    :param removed: in the order of their ends.
    """
    dead = [(name, why) for name, why in removed if not WANTED.search(why)]
    if not dead:
        return ""
    name, why = dead[-1]
    others = f"; {len(dead) - 1} died before it" if len(dead) > 1 else ""
    return f"executor {name}: {' '.join(NOTHING.sub('', why).split())[:LONGEST].rstrip('. ')}{others}"


def explained(error: Exception, words: str) -> Exception:
    """The error with what the executors died of, if it says only that the context has ended.

    :param words: `last_words` of executors that died shortly before.
    """
    ended = line_with(error, END_OF_CONTEXT)
    if ended is None or not words:
        return error
    found = ExecutorsLost(
        f"Spark has ended its context after executors had died. The last one: {words}",
        remedy="See the executors' logs. Exit code 137 or OOMKilled: raise <executor-memory> or "
        "spark.executor.memoryOverhead. How many may die: spark.executor.maxNumFailures",
    )
    found.__cause__ = error
    return found
