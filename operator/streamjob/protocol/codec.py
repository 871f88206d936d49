"""Dataclasses to JSON and back, strictly: a wrong type, a missing or an unknown field is an error that names it.

Small on purpose: it runs in users' images, where no library for it can be assumed. Numbers, strings, booleans,
`None`, enums, tuples, `dict[str, X]`, unions with `None` and nested dataclasses are all that our documents hold.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import math
import types
import typing
from functools import cache
from reprlib import repr as short_repr
from typing import Any, TypeVar

from .errors import FormatError

T = TypeVar("T")


def to_plain(value: Any) -> Any:
    """The JSON-ready form of a dataclass tree. A rate that is no number (0 rows in 0 seconds) becomes `None`."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (list, tuple)):
        return [to_plain(v) for v in value]
    if isinstance(value, dict):
        return {str(k): to_plain(v) for k, v in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def dumps(value: Any, *, indent: int | None = None) -> str:
    """Canonical JSON: sorted keys and no spaces (unless indented), so that equal documents are equal bytes."""
    separators = (",", ":") if indent is None else None
    return json.dumps(to_plain(value), sort_keys=True, indent=indent, separators=separators, allow_nan=False)


def loads(cls: type[T], text: str | bytes, *, limit: int = 1 << 20) -> T:
    """Parse a document of at most `limit` bytes into `cls`.

    :raises FormatError: not JSON, too large, or not the shape of `cls`; the message names the field.
    """
    return from_plain(cls, parse(text, cls.__name__, limit))


def parse(text: str | bytes, what: str, limit: int) -> Any:
    """The JSON value in at most `limit` bytes. :raises FormatError: names `what`."""
    size = len(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text)
    if size > limit:
        raise FormatError(f"{what}: {size} bytes, at most {limit} are read")
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as e:
        raise FormatError(f"{what}: cut off or not JSON ({e})") from None


def from_plain(cls: type[T], plain: Any) -> T:
    """Build `cls` from parsed JSON. :raises FormatError: names the path of the offending field."""
    return typing.cast(T, _build(cls, plain, cls.__name__))


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


@cache
def _fields(cls: type) -> dict[str, tuple[Any, bool]]:
    """By name: the type, and whether it has to be given."""
    hints, missing = typing.get_type_hints(cls), dataclasses.MISSING
    return {
        f.name: (hints[f.name], f.default is missing and f.default_factory is missing)
        for f in dataclasses.fields(cls)
    }


def _build(hint: Any, value: Any, path: str) -> Any:
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        if value is None:
            return None
        (inner,) = [a for a in typing.get_args(hint) if a is not type(None)]
        return _build(inner, value, path)
    if origin is tuple:
        _expect(value, list, path)
        return tuple(_build(typing.get_args(hint)[0], v, f"{path}[{i}]") for i, v in enumerate(value))
    if origin is dict:
        _expect(value, dict, path)
        return {k: _build(typing.get_args(hint)[1], v, f"{path}.{k[:100]}") for k, v in value.items()}
    if dataclasses.is_dataclass(hint):
        return _build_dataclass(typing.cast(type, hint), value, path)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        try:
            return hint(value)
        except ValueError:
            raise FormatError(f"{path}: {short_repr(value)} is none of {[m.value for m in hint]}") from None
    if hint is float:
        return _build_float(value, path)
    _expect(value, hint, path)
    return value


def _build_dataclass(cls: type, value: Any, path: str) -> Any:
    _expect(value, dict, path)
    fields = _fields(cls)
    if unknown := sorted(set(value) - set(fields)):
        raise FormatError(f"{path}: unknown field {short_repr(unknown[0])}")
    given = {}
    for name, (hint, required) in fields.items():
        if name in value:
            given[name] = _build(hint, value[name], f"{path}.{name}")
        elif required:
            raise FormatError(f"{path}: field {name!r} is missing")
    return cls(**given)


def _build_float(value: Any, path: str) -> float:
    if isinstance(value, int) and not isinstance(value, bool):
        try:
            value = float(value)
        except OverflowError:
            raise FormatError(f"{path}: too large for a number") from None
    _expect(value, float, path)
    if not math.isfinite(value):
        raise FormatError(f"{path}: too large for a number")
    return typing.cast(float, value)


def _expect(value: Any, kind: Any, path: str) -> None:
    if kind is Any:
        return
    # bool is an int in Python; a true batch number is nobody's intent.
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise FormatError(f"{path}: expected {getattr(kind, '__name__', kind)}, got {type(value).__name__}")
