"""Twenty applications of our own. Each file has one, and after it what is expected of its StreamJob:
the part of the object that matters, what becomes of some fields, and what the user is asked.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamjob.convert.report import as_yaml
from streamjob.convert.source import Kind

from .inputs import convert, fate, files, read


def lacks(got: Any, wanted: Any, at: str = "") -> list[str]:
    """Where `got` is not `wanted`; objects may have more fields, and lists of named objects more entries."""
    if isinstance(wanted, dict) and isinstance(got, dict):
        return [p for key, value in wanted.items() for p in lacks(got.get(key), value, f"{at}.{key}")]
    if isinstance(wanted, list) and isinstance(got, list) and all(isinstance(w, dict) for w in wanted):

        def same(one: Any) -> bool:
            return any(not lacks(one, w) for w in wanted)

        return [] if sum(same(one) for one in got) >= len(wanted) else [f"{at}: {got}"]
    return [] if got == wanted else [f"{at}: {got} instead of {wanted}"]


def test_there_are_twenty() -> None:
    assert len(files("own")) == 20


@pytest.mark.parametrize("path", files("own"), ids=lambda p: p.stem)
def test_it_becomes_what_is_expected(path: Path) -> None:
    document, expected = read(path)
    conversion = convert(document)
    assert conversion.refused is None
    job = conversion.objects[-1]
    assert lacks(job, {k: v for k, v in expected.items() if k in ("metadata", "spec")}) == []
    for field, kind in expected.get("kinds", {}).items():
        entries = {e.path: e.kind.value for e in conversion.entries}
        nested = {k for p, k in entries.items() if p.startswith(f"{field}.") or p.startswith(f"{field}[")}
        assert (kind in nested) or fate(conversion, field).value == kind, (field, entries)
    for field, text in expected.get("decide", {}).items():
        asked = " ".join(e.message for e in conversion.of_kind(Kind.DECIDE) if e.to == field)
        assert text in asked, conversion.of_kind(Kind.DECIDE)
    for text in expected.get("absent", ()):
        assert text not in as_yaml([conversion])
    assert len(conversion.objects) == expected.get("objects", 1)
