"""Strict JSON: what was written comes back, what is not of the shape is an error that names the field."""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamjob.protocol.errors import FormatError
from streamjob.protocol.formats import codec
from tests.protocol.formats.documents import JUNK, edited, only_format_errors, refused, values


class Color(enum.Enum):
    RED = "Red"
    BLUE = "Blue"


@dataclass(frozen=True)
class Inner:
    n: int
    color: Color = Color.RED


@dataclass(frozen=True)
class Outer:
    name: str
    rate: float | None
    flag: bool
    inner: Inner | None
    many: tuple[Inner, ...] = ()
    conf: dict[str, int] = field(default_factory=dict)


inners = st.builds(Inner, st.integers(-(2**63), 2**63), st.sampled_from(Color))
outers = st.builds(
    Outer,
    st.text(),
    st.none() | st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.none() | inners,
    st.lists(inners, max_size=3).map(tuple),
    st.dictionaries(st.text(max_size=5), st.integers(), max_size=3),
)
GOOD = {
    "name": "x",
    "rate": 1.5,
    "flag": True,
    "inner": {"n": 1, "color": "Blue"},
    "many": [{"n": 2}],
    "conf": {"a": 1},
}


@given(outers)
def test_round_trip(outer: Outer) -> None:
    text = codec.dumps(outer)
    assert codec.loads(Outer, text) == outer
    assert codec.loads(Outer, text.encode()) == outer
    assert codec.loads(Outer, codec.dumps(outer, indent=1)) == outer
    assert codec.dumps(codec.loads(Outer, text)) == text


def test_equal_documents_are_equal_bytes() -> None:
    assert codec.dumps({"b": 1, "a": (Color.RED, 2)}) == '{"a":["Red",2],"b":1}'


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"name": 3}, "Outer.name: expected str, got int"),
        ({"flag": 1}, "Outer.flag: expected bool, got int"),
        ({"rate": True}, "Outer.rate: expected float, got bool"),
        ({"rate": "1"}, "Outer.rate"),
        ({"rate": 10**400}, "Outer.rate: too large"),
        ({"inner": {"n": True}}, "Outer.inner.n: expected int, got bool"),
        ({"inner": {"n": 1.0}}, "Outer.inner.n"),
        ({"inner": {}}, "Outer.inner: field 'n' is missing"),
        ({"inner": []}, "Outer.inner: expected dict, got list"),
        ({"many": {}}, "Outer.many: expected list"),
        ({"many": [{"n": 1}, {"n": 1, "color": "Green"}]}, "Outer.many[1].color: 'Green' is none of"),
        ({"many": [{"n": 1, "color": []}]}, "Outer.many[0].color"),
        ({"many": [{"n": 1, "color": {}}]}, "Outer.many[0].color"),
        ({"conf": {"k": "1"}}, "Outer.conf.k: expected int"),
        ({"extra": 1}, "Outer: unknown field 'extra'"),
        ({"name": None}, "Outer.name: expected str, got NoneType"),
    ],
)
def test_an_error_names_the_field(change: dict[str, object], says: str) -> None:
    assert says in refused(lambda d: codec.loads(Outer, d), json.dumps({**GOOD, **change}))
    assert codec.loads(Outer, json.dumps(GOOD)).many == (Inner(2),)


def test_an_integer_is_a_float_but_no_nan_is() -> None:
    assert codec.loads(Outer, json.dumps({**GOOD, "rate": 2})).rate == 2.0
    for text in ("NaN", "Infinity", "-Infinity", "1e999"):
        refused(lambda d: codec.loads(Outer, d), json.dumps(GOOD).replace("1.5", text))


@pytest.mark.parametrize("rate", [float("nan"), float("inf"), -float("inf")])
def test_a_rate_that_is_no_number_is_written_as_none(rate: float) -> None:
    assert codec.loads(Outer, codec.dumps(Outer("x", rate, True, None))).rate is None


@pytest.mark.parametrize("junk", JUNK, ids=lambda j: repr(j[:12]))
def test_junk(junk: bytes) -> None:
    refused(lambda d: codec.loads(Outer, d), junk)


@given(st.binary(max_size=40) | st.text(max_size=40))
def test_noise(data: bytes | str) -> None:
    only_format_errors(lambda d: codec.loads(Outer, d), data)


@given(edited(json.dumps(GOOD)))
def test_edited(text: str) -> None:
    only_format_errors(lambda d: codec.loads(Outer, d), text)


@given(values)
def test_any_value_for_the_whole(value: object) -> None:
    with pytest.raises(FormatError):
        codec.from_plain(Outer, value)


def test_the_limit_counts_bytes() -> None:
    text = json.dumps({"name": "é" * 10}, ensure_ascii=False)
    assert "at most 25" in refused(lambda d: codec.loads(Outer, d, limit=25), text)
    assert "at most 25" in refused(lambda d: codec.loads(Outer, d, limit=25), text.encode())
    good = json.dumps(GOOD)
    assert codec.loads(Outer, good, limit=len(good))
    refused(lambda d: codec.loads(Outer, d, limit=len(good) - 1), good)


def test_errors_stay_short() -> None:
    for change in ({"a" * 9000: 1}, {"inner": {"n": 1, "color": "x" * 9000}}, {"conf": {"k" * 9000: None}}):
        only_format_errors(lambda d: codec.loads(Outer, d), json.dumps({**GOOD, **change}))


@dataclass(frozen=True)
class Later(Inner):
    """`Inner`, as a later version has it."""

    more: Inner = field(default_factory=lambda: Inner(0), metadata=codec.NEW)
    note: str | None = field(default=None, metadata=codec.NEW)


def test_an_earlier_version_reads_what_does_not_use_a_new_field() -> None:
    """A controller that was rolled back reads the status of drivers, and the index, of the later version."""
    assert codec.loads(Inner, codec.dumps(Later(1))) == Inner(1)
    with pytest.raises(FormatError, match="unknown field 'note'"):
        codec.loads(Inner, codec.dumps(Later(1, note="x")))


@pytest.mark.parametrize("later", [Later(1), Later(1, more=Inner(0, Color.BLUE)), Later(1, note="x")])
def test_a_new_field_comes_back(later: Later) -> None:
    assert codec.loads(Later, codec.dumps(later)) == later
