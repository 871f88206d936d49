"""Where a writer of pyspark writes, as the script has set it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar


@dataclass(frozen=True)
class Target:
    """The target of a query's writer, or of a batch writer.

    :param options: keys in lower case.
    :param table: its name as the script writes it.
    :param partitioned: from partitionBy(): folders such as `day=1` are written below the target's own.
    """

    format: str | None = None
    options: dict[str, str] = field(default_factory=dict)
    table: str | None = None
    partitioned: bool = False


T = TypeVar("T", bound=Target)


def with_options(given: T, options: Mapping[str, Any] | None = None) -> T:
    texts = {key.lower(): str(value) for key, value in (options or {}).items() if value is not None}
    return replace(given, options={**given.options, **texts})


def with_call(given: T, call: Mapping[str, Any]) -> T:
    """Add what start() of a query's writer or save() of a batch writer is given: format, path and options.

    :param call: the arguments by name.
    """
    complete = with_options(given, {**call.get("options", {}), "path": call.get("path")})
    return replace(complete, format=call.get("format") or given.format)
