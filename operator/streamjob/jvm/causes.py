"""Finds the root cause in the text of an error: Java's stack traces, Python's tracebacks, one in the other.

Pure. The text of a failed query begins with the query's ids and wraps what has happened up to five times; the
cause comes last.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator

TRACEBACK = "Traceback (most recent call last):"
CONTEXT = 250  # characters of the outer message, which names the file or the operation

# `: ` is how py4j prints a Java exception below a Python one.
_CAUSE = re.compile(r"^(?:Caused by: |: )(?=[\w.$]+(?::|$))", re.MULTILINE)
_FRAME = re.compile(r"^\s*(?:at [\w.$/<>]+\(|\.\.\. \d+ more$)")
_QUERY = re.compile(r"^=== Streaming Query ===$.*?(?=^\s*at [\w.$/]+\(|\Z)", re.MULTILINE | re.DOTALL)
_WRAPPERS = re.compile(
    r"^(?:\[STREAM_FAILED\] )?Query (?:\S+ )?\[id = [^\]]*\] terminated with exception: ?"
    r"|^Job aborted due to stage failure: .*?most recent failure: Lost task \S+ in stage \S+ \(TID \d+\)"
    r" \([^)]*\): ?"
    r"|^\[FOREACH_BATCH_USER_FUNCTION_ERROR\].*?Reason: ?"
    r"|^An exception was raised by the Python Proxy\. Return Message: ?"
    r"|^An error occurred while calling \S+?\.?(?=$)"
    r"|^An exception was thrown from the Python worker\..*"
)
_CLASS = re.compile(r"^(?:[a-z][\w]*\.)+(?:[\w$]*\$)?([A-Z]\w*)(?=: |:?$)")
# Names of classes that only wrap, or whose message begins with an error condition of Spark.
_PLAIN = re.compile(
    r"^(?:SparkException|ExecutionException|Py4JException|Py4JJavaError|StreamingQueryException"
    r"|PythonException): ?|^[A-Z]\w*: (?=\[[A-Z_.]+\] )"
)
_CODE = re.compile(r"\[[A-Z_.]+\] ")
_SQLSTATE = re.compile(r"(?:\.? *SQLSTATE: \w+)+$")
_SCHEMA = re.compile(r"(existing|provided|new) (key|value)[ _]schema ?[=:]\s*(?=StructType\()", re.IGNORECASE)


def root_cause(texts: Iterable[str]) -> str:
    """The innermost cause in one line, and in brackets the outermost message that adds to it.

    :param texts: messages and stack traces of an exception and its causes, outermost first.
    """
    found = [line for text in texts for part in _segments(text) if (line := _headline(part))]
    if not found:
        return ""
    root = found[-1]
    context = next((line for line in found if root not in line and line not in root), "")
    return f"{root} ({textwrap.shorten(context, CONTEXT, placeholder=' …')})" if context else root


def _segments(text: str) -> Iterator[str]:
    """The text of each cause, without the frames of Java's stack trace and the plan of the query."""
    for part in _CAUSE.split(_QUERY.sub("", text)):
        lines = []
        for line in part.splitlines():
            if _FRAME.match(line):
                break
            lines.append(line)
        yield "\n".join(lines)


def _headline(segment: str) -> str:
    """What one cause says, without what only announces or wraps it."""
    if (difference := schema_difference(segment)) is not None:
        code = _CODE.match(_unwrapped(segment.lstrip().partition("\n")[0]))
        return f"{code[0] if code else ''}the schema of the state differs: {difference}"
    *_, last = segment.rpartition(TRACEBACK)
    if last != segment:
        lines = last.splitlines()
        return _unwrapped(next((line for line in lines if line and not line[0].isspace()), ""))
    return next(filter(None, map(_unwrapped, segment.splitlines())), "")


def _unwrapped(line: str) -> str:
    before = None
    while line != before:
        before, line = line, _CLASS.sub(r"\1", line.strip())
        line = _WRAPPERS.sub("", _PLAIN.sub("", line))
    return "" if line == TRACEBACK else _SQLSTATE.sub("", line).strip()


def schema_difference(text: str) -> str | None:
    """What differs between the schemas that a message quotes: columns added, removed, changed.

    :returns: None if the message does not quote two schemas.
    """
    schemas: dict[str, dict[str, dict[str, str]]] = {}
    for found in _SCHEMA.finditer(text):
        which = "old" if found[1].lower() == "existing" else "new"
        schemas.setdefault(found[2].lower(), {})[which] = _columns(_inner(text, found.end()))
    pairs = [(kind, s["old"], s["new"]) for kind, s in schemas.items() if len(s) == len(("old", "new"))]
    if not pairs:
        return None
    differ = [f"{kind}: {said}" for kind, old, new in pairs if (said := ", ".join(_changes(old, new)))]
    return "; ".join(differ) or "only their order, or whether they may be null, differs"


def _changes(old: dict[str, str], new: dict[str, str]) -> Iterator[str]:
    yield from (f"{name} ({kind}) is new" for name, kind in new.items() if name not in old)
    yield from (f"{name} ({kind}) is gone" for name, kind in old.items() if name not in new)
    for name in old.keys() & new.keys():
        if old[name] != new[name]:
            yield f"{name} was {old[name]} and is {new[name]}"


def _columns(fields: str) -> dict[str, str]:
    """Names and types in what StructType(…) contains."""
    columns = {}
    for field in _split(fields):
        name, kind, *_ = [*_split(_inner(field, 0)), ""]
        columns[name] = kind if "(" in kind else kind.removesuffix("Type").lower()
    return columns


def _inner(text: str, begin: int) -> str:
    """What is between the first bracket and the one that closes it, or the end of a text that was cut."""
    depth, first = 0, text.index("(", begin) + 1
    for at in range(first, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth < 0:
            return text[first:at]
    return text[first:]


def _split(text: str) -> Iterator[str]:
    """The parts between commas outside of brackets."""
    depth, part = 0, ""
    for letter in text:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            yield part
            part = ""
        else:
            part += letter
    if part:
        yield part
