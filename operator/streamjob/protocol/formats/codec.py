"""Strict conversion between dataclasses and JSON: a wrong type, a missing field or an unknown field is an
error that names it.

This module is small on purpose: it runs in users' images, where no serialization library can be assumed. It
supports only what the documents hold: numbers, strings, booleans, `None`, enums, tuples, `dict[str, X]`,
unions with `None`, and nested dataclasses.

The controller reads a document for each driver response and each time it observes a job, so a type is
analyzed only once.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import math
import types
import typing
from collections.abc import Callable
from functools import cache
from reprlib import repr as short_repr
from typing import Any, TypeVar

from ..errors import FormatError

T = TypeVar("T")
Build = Callable[[Any], Any]

# Metadata of a field that earlier versions do not know, and would refuse. It is written only where it is not
# the default, so that they can read what does not use it: after a rollback of the controller, or in an image
# with an older runtime.
NEW = {"streamjob": "new"}


def to_plain(value: Any) -> Any:
    """The JSON-ready form of a dataclass tree. A non-finite float (0 rows in 0 seconds) becomes `None`."""
    kind = type(value)
    if kind in (str, int, bool, types.NoneType):
        return value
    names = _names(kind)  # type: ignore[arg-type]
    if names is not None:
        plain = {name: to_plain(getattr(value, name)) for name in names}
        for name, default in _new(kind):  # type: ignore[arg-type]
            if plain[name] == default:
                del plain[name]
        return plain
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (list, tuple)):
        return [to_plain(v) for v in value]
    if isinstance(value, dict):
        return {str(k): to_plain(v) for k, v in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


@cache
def _names(kind: type) -> tuple[str, ...] | None:
    """The field names of a dataclass, None for any other type."""
    return tuple(f.name for f in dataclasses.fields(kind)) if dataclasses.is_dataclass(kind) else None


@cache
def _new(kind: type) -> tuple[tuple[str, Any], ...]:
    """The fields that earlier versions do not know, with their defaults in JSON."""
    found = [f for f in dataclasses.fields(kind) if f.metadata == NEW]
    factory = dataclasses.MISSING
    return tuple(
        (f.name, to_plain(f.default if f.default_factory is factory else f.default_factory())) for f in found
    )


def dumps(value: Any, *, indent: int | None = None) -> str:
    """Canonical JSON: sorted keys, and no spaces unless indented. Equal documents are equal bytes."""
    separators = (",", ":") if indent is None else None
    return json.dumps(to_plain(value), sort_keys=True, indent=indent, separators=separators, allow_nan=False)


def loads(cls: type[T], text: str | bytes, *, limit: int = 1 << 20) -> T:
    """Parse a document of at most `limit` bytes into `cls`.

    :raises FormatError: not JSON, too large, or not the shape of `cls`; the message names the field.
    """
    return from_plain(cls, parse(text, cls.__name__, limit))


def parse(text: str | bytes, what: str, limit: int) -> Any:
    """Parse a JSON document of at most `limit` bytes.

    :raises FormatError: too large, or not JSON; the message names `what`.
    """
    size = len(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text)
    if size > limit:
        raise FormatError(f"{what}: {size} bytes, at most {limit} are read")
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as e:
        raise FormatError(f"{what}: cut off or not JSON ({e})") from None


def from_plain(cls: type[T], plain: Any) -> T:
    """Build `cls` from parsed JSON.

    :raises FormatError: names the path of the offending field.
    """
    try:
        return typing.cast(T, _builder(cls)(plain))  # type: ignore[arg-type]
    except _Misfit as e:
        raise FormatError(f"{cls.__name__}{''.join(reversed(e.path))}: {e}") from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


class _Misfit(Exception):
    """A value does not have the required type. `path` leads to the value, last part first, because callers
    append to it as the error propagates.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.path: list[str] = []


@cache
def _builder(hint: Any) -> Build:
    """A function that converts a JSON value to the type `hint`, or raises `_Misfit`."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        (one,) = [_builder(a) for a in inner if a is not types.NoneType]
        return lambda value: None if value is None else one(value)
    if origin is tuple:
        return _tuple_of(_builder(inner[0]))
    if origin is dict:
        return _dict_of(_builder(inner[1]))
    if dataclasses.is_dataclass(hint):
        return _dataclass(typing.cast(type, hint))
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _enum(hint)
    if hint is float:
        return _float
    return lambda value: _expect(value, hint)


def _tuple_of(build: Build) -> Build:
    def build_tuple(value: Any) -> Any:
        built: list[Any] = []
        items = _expect(value, list)
        try:
            for item in items:
                built.append(build(item))
        except _Misfit as e:
            e.path.append(f"[{len(built)}]")
            raise
        return tuple(built)

    return build_tuple


def _dict_of(build: Build) -> Build:
    def build_dict(value: Any) -> Any:
        built = {}
        for key, item in _expect(value, dict).items():
            try:
                built[key] = build(item)
            except _Misfit as e:
                e.path.append(f".{key[:100]}")
                raise
        return built

    return build_dict


def _dataclass(cls: type) -> Build:
    hints, missing = typing.get_type_hints(cls), dataclasses.MISSING
    fields = {f.name: _builder(hints[f.name]) for f in dataclasses.fields(cls)}
    required = [
        f.name for f in dataclasses.fields(cls) if f.default is missing and f.default_factory is missing
    ]

    def build_dataclass(value: Any) -> Any:
        if unknown := _expect(value, dict).keys() - fields.keys():
            raise _Misfit(f"unknown field {short_repr(min(unknown))}")
        given = {}
        for name, item in value.items():
            try:
                given[name] = fields[name](item)
            except _Misfit as e:
                e.path.append(f".{name}")
                raise
        for name in required:
            if name not in given:
                raise _Misfit(f"field {name!r} is missing")
        return cls(**given)

    return build_dataclass


def _enum(cls: type[enum.Enum]) -> Build:
    known = {member.value: member for member in cls}

    def build_enum(value: Any) -> Any:
        try:
            return known[value]
        except (KeyError, TypeError):
            raise _Misfit(f"{short_repr(value)} is none of {list(known)}") from None

    return build_enum


def _float(value: Any) -> float:
    if isinstance(value, int) and not isinstance(value, bool):
        try:
            value = float(value)
        except OverflowError:
            raise _Misfit("too large for a number") from None
    if not math.isfinite(_expect(value, float)):
        raise _Misfit("too large for a number")
    return typing.cast(float, value)


def _expect(value: Any, kind: Any) -> Any:
    """Return the value if it has this type.

    :raises _Misfit: it has another type.
    """
    # bool is a subclass of int in Python, but `true` is not a valid batch number.
    if kind is not Any and (not isinstance(value, kind) or (kind is int and isinstance(value, bool))):
        raise _Misfit(f"expected {getattr(kind, '__name__', kind)}, got {type(value).__name__}")
    return value
