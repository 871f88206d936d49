"""Which query of an earlier epoch a query without a name is."""

from __future__ import annotations

import pytest

from streamjob.protocol.formats.records import LikenessRecord
from streamjob.runtime.startup.recognition import Known, UnnamedStage, recognize, refuse_taken

MINE = LikenessRecord("mine", certain=False)
SAME, MAYBE = Known(LikenessRecord("mine", certain=True)), Known(MINE)
OTHER, UNKNOWN = Known(LikenessRecord("other", certain=True)), Known(None)
ENDED = Known(LikenessRecord("other", certain=True), finished=True)


@pytest.mark.parametrize(
    ("known", "inside_batch", "uid", "warns"),
    [
        ({}, False, None, False),
        ({"main": SAME}, False, "main", False),
        ({"main": SAME}, True, "main", False),
        ({"main": OTHER, "main-2": SAME}, True, "main-2", False),
        ({"main": MAYBE}, False, "main", False),
        ({"main": OTHER, "main-2": MAYBE}, False, "main-2", False),
        # Edited, if only one can be meant.
        ({"main": OTHER}, False, "main", True),
        ({"main": UNKNOWN}, False, "main", False),
        ({"main": ENDED, "main-2": OTHER}, False, "main-2", True),
        ({"main": OTHER, "main-2": OTHER}, False, None, True),
        ({"main": OTHER, "main-2": UNKNOWN}, False, None, True),
        ({"main": MAYBE, "main-2": MAYBE}, False, None, True),
        ({"main": ENDED}, False, None, False),
        # A batch makes queries that differ in what their functions hold.
        ({"main": OTHER}, True, None, True),
        ({"main": MAYBE, "main-2": MAYBE}, True, None, True),
        ({"main": ENDED}, True, None, False),
    ],
)
def test_a_query_is_one_of_the_earlier_ones_or_new(
    known: dict[str, Known], inside_batch: bool, uid: str | None, warns: bool
) -> None:
    found = recognize(MINE, known, inside_batch=inside_batch)
    assert (found.uid, found.warning is not None) == (uid, warns)


@pytest.mark.parametrize("known", [{"main": MAYBE}, {"main": OTHER, "main-2": MAYBE}, {"main": UNKNOWN}])
def test_a_batch_s_query_that_may_be_one_of_them_is_refused(known: dict[str, Known]) -> None:
    with pytest.raises(UnnamedStage, match="may be the one that began as 'main") as e:
        recognize(MINE, known, inside_batch=True)
    assert "queryName: 'main" in e.value.remedy


def test_a_query_whose_state_an_edited_one_continues_is_refused() -> None:
    other = LikenessRecord("edited", certain=True)
    with pytest.raises(UnnamedStage, match="began as 'main'"):
        refuse_taken(MINE, {"main": SAME}, {"main": other}, deferred=["main"])
    for known, started in (
        ({"main": SAME}, {}),
        ({"main": SAME}, {"main": MINE}),  # the same again, or its twin with other objects
        ({"main": OTHER}, {"main": other}),
        ({"main": SAME}, {"main": None}),
    ):
        refuse_taken(MINE, known, started, deferred=[])
