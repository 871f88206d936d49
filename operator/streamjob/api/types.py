"""The scalars of the custom resource. The API server checks each of them (with CEL, which lets us choose the
message), and so do the models.

A *duration* has hours, minutes and seconds in this order, at least one of them: `90s`, `10m`, `1h30m`. It is
never negative.
A *location* is a Hadoop file system URI (`s3a://bucket/path`, `file:///data`) or an absolute path.
A *quantity* is Kubernetes' notation of an amount: `512Mi`, `2Gi` or `1.5Gi` of memory, `2` or `500m` CPUs.
A *schedule* is a CronJob's: `0 3 * * *`, `0 3 * * MON-FRI`, `@daily`; see `cron`.
A *time zone* is an IANA name: `Europe/Berlin`.
A *timestamp* is RFC 3339 in UTC.
"""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal
from enum import Enum
from math import ceil
from typing import Annotated, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from .cron import PATTERN

# Patterns of whole values, in the subset of regular expressions that Python and CEL (RE2) share.
DURATION = r"([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?"
LOCATION = r"([a-z][a-z0-9+.-]*:/|/)[^\x00-\x20\x7f\\]*"
PARENT = r"(.*/)?[.][.](/.*)?"
QUANTITY = r"([0-9]+[.]?[0-9]*|[.][0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,2})?"
UNITS = {
    suffix: Decimal(10) ** (3 * n)
    for n, suffix in enumerate(("n", "u", "m", "", "k", "M", "G", "T", "P", "E"), -3)
}
UNITS |= {f"{prefix}i": Decimal(1 << 10 * n) for n, prefix in enumerate("KMGTPE", 1)}
ZONE = r"[A-Z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*"
MEBIBYTE = 1 << 20
ANYTHING: dict[str, Any] = {
    "x-kubernetes-preserve-unknown-fields": True
}  # the schema of fields that are not ours


class Model(BaseModel):
    """Frozen, with camelCase names in JSON.

    Unknown fields are ignored, because the API server prunes them.
    """

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True, extra="ignore")

    def plain(self) -> dict[str, Any]:
        """The JSON form that the API server stores: fields that are None are absent."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


def cel(*rules: tuple[str, str]) -> dict[str, Any]:
    """`json_schema_extra` with CEL rules.

    :param rules: pairs of an expression and the message shown when it is false.
    """
    return {"x-kubernetes-validations": [{"rule": rule, "message": message} for rule, message in rules]}


def one_of(kind: type[Enum], *more: str) -> dict[str, Any]:
    """`json_schema_extra` for a string that is a value of `kind`, or one of `more`."""
    return {"enum": [*(member.value for member in kind), *more]}


def merged_by(*keys: str) -> dict[str, Any]:
    """`json_schema_extra` for a list whose entries server-side apply merges by these fields of theirs."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


def _matches(pattern: str, message: str, *, never: str = "") -> AfterValidator:
    def check(value: str) -> str:
        if not value or not re.fullmatch(pattern, value) or (never and re.fullmatch(never, value)):
            raise ValueError(message)
        return value

    return AfterValidator(check)


DURATION_MESSAGE = "must be a duration that is not negative, such as 90s, 10m or 1h30m"
LOCATION_MESSAGE = "must be a URI with a scheme (s3a://bucket/path, file:///data) or an absolute path"
PARENT_MESSAGE = "must not contain '..'"
CRON_MESSAGE = (
    "must have the five fields of cron (minute hour day month weekday) with numbers, names, ranges, lists "
    "and steps, such as '0 3 * * *' or '*/15 8-18 * * MON-FRI', or be @yearly, @monthly, @weekly, @daily or "
    "@hourly; `timeZone` has the zone"
)
ZONE_MESSAGE = "must be the IANA name of a time zone, such as Europe/Berlin or Etc/UTC"
MEMORY_MESSAGE = "must be a quantity of whole mebibytes, such as 512Mi or 2Gi"
# MiB: one and a half of the 300 that Spark reserves for itself (UnifiedMemoryManager). Of the heap, the JVM's
# serial collector takes a thirtieth away, and others may round it up by 1.
LEAST_HEAP = 450
HEAP_MESSAGE = f"must be at least {LEAST_HEAP}Mi, the smallest heap that Spark takes"
CORES_MESSAGE = "must be a quantity of CPUs from 1m to 1024, such as 2 or 500m"

_IN_MEBIBYTES = f"(quantity(self).asApproximateFloat() / {MEBIBYTE}.0)"
# What people write by habit is near: 512m and 2g are Spark's notation, 2G is no whole number of mebibytes.
# Kubernetes estimates what an expression costs, so it calls nothing whose result might be of any length.
_ANOTHER_SIZE = (
    "self.matches('^[0-9]+[mg]$') "
    "? self + ' is Spark\\'s notation; the quantity is ' + self.substring(0, size(self) - 1) "
    "+ (self.endsWith('m') ? 'Mi' : 'Gi') "
    ": self.matches('^[0-9]+[MG]$') "
    "? self + ' is not a whole number of mebibytes, which Spark needs; ' + self + 'i is' "
    f": '{MEMORY_MESSAGE}'"
)


def _known_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ValueError, OSError, ZoneInfoNotFoundError):
        raise ValueError(ZONE_MESSAGE) from None
    return name


def _text(value: object) -> object:
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _whole_mebibytes(text: str) -> str:
    size = quantity(text)
    if not MEBIBYTE <= size <= MEBIBYTE**2 or size % MEBIBYTE:
        raise ValueError(MEMORY_MESSAGE)
    if size < LEAST_HEAP * MEBIBYTE:
        raise ValueError(HEAP_MESSAGE)
    return text


def _some_cpus(text: str) -> str:
    if not Decimal("0.001") <= quantity(text) <= 1024:
        raise ValueError(CORES_MESSAGE)
    return text


Duration = Annotated[
    str,
    _matches(DURATION, DURATION_MESSAGE),
    Field(
        max_length=24,
        json_schema_extra=cel((f"size(self) > 0 && self.matches(r'^{DURATION}$')", DURATION_MESSAGE)),
    ),
]
Location = Annotated[
    str,
    _matches(LOCATION, f"{LOCATION_MESSAGE}; {PARENT_MESSAGE}", never=PARENT),
    Field(
        max_length=1024,
        json_schema_extra=cel(
            (f"self.matches(r'^{LOCATION}$')", LOCATION_MESSAGE),
            (f"!self.matches(r'^{PARENT}$')", PARENT_MESSAGE),
        ),
    ),
]
Memory = Annotated[
    str,
    AfterValidator(_whole_mebibytes),
    Field(
        max_length=24,
        json_schema_extra={
            "x-kubernetes-validations": [
                {
                    "rule": f"isQuantity(self) && {_IN_MEBIBYTES} >= 1.0 && "
                    f"{_IN_MEBIBYTES} <= {MEBIBYTE}.0 && "
                    f"double(int({_IN_MEBIBYTES})) == {_IN_MEBIBYTES}",
                    "message": MEMORY_MESSAGE,
                    "messageExpression": _ANOTHER_SIZE,
                },
                {
                    "rule": f"!isQuantity(self) || {_IN_MEBIBYTES} < 1.0 || "
                    f"{_IN_MEBIBYTES} >= {LEAST_HEAP}.0",
                    "message": HEAP_MESSAGE,
                },
            ]
        },
    ),
]
# A number is a quantity, too.
Quantity = Annotated[
    str,
    BeforeValidator(_text),
    Field(json_schema_extra={"x-kubernetes-int-or-string": True}),
]
Cores = Annotated[
    str,
    BeforeValidator(_text),
    AfterValidator(_some_cpus),
    Field(
        json_schema_extra={
            "x-kubernetes-int-or-string": True,
            **cel(
                (
                    "isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('1m')) >= 0 && "
                    "quantity(string(self)).compareTo(quantity('1024')) <= 0",
                    CORES_MESSAGE,
                )
            ),
        }
    ),
]
Cron = Annotated[
    str,
    _matches(PATTERN, CRON_MESSAGE),
    Field(max_length=128, json_schema_extra=cel((f"self.matches(r'^{PATTERN}$')", CRON_MESSAGE))),
]
# The API server looks the name up. It fails with the message if it does not find it.
TimeZone = Annotated[
    str,
    _matches(ZONE, ZONE_MESSAGE),
    AfterValidator(_known_zone),
    Field(
        max_length=64,
        json_schema_extra=cel(
            (
                f"self != 'Local' && self.matches('^{ZONE}$') && "
                "timestamp('2000-01-01T00:00:00Z').getFullYear(self) > 0",
                ZONE_MESSAGE,
            )
        ),
    ),
]
Named = Annotated[str, Field(min_length=1, max_length=253)]
Timestamp = Annotated[str, Field(json_schema_extra={"format": "date-time"})]


def duration(text: str) -> timedelta:
    """`1h30m` → 90 minutes."""
    found = re.fullmatch(DURATION, text)
    if not text or not found:
        raise ValueError(f"{text!r} {DURATION_MESSAGE}")
    hours, minutes, seconds = (int(part[:-1]) if part else 0 for part in found.groups())
    return timedelta(hours=hours, minutes=minutes, seconds=seconds)


def seconds(text: str) -> int:
    """`2m` → 120."""
    return int(duration(text).total_seconds())


def quantity(text: str) -> Decimal:
    """`500m` → 0.5.

    :raises ValueError: the text is no quantity, or a negative one.
    """
    found = re.fullmatch(QUANTITY, text)
    if not found:
        raise ValueError(f"{text!r} is not a quantity, such as 2Gi or 500m")
    number, unit = Decimal(found[1]), found[2] or ""
    return number * (UNITS[unit] if unit in UNITS else Decimal(10) ** int(unit[1:]))


def mebibytes(memory: str) -> int:
    """`2Gi` → 2048."""
    return int(quantity(memory) / MEBIBYTE)


def whole_cores(cores: str) -> int:
    """`1500m` → 2."""
    return ceil(quantity(cores))
