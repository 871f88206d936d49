"""What a script does with driver-side state, and what it may not do."""

from __future__ import annotations

import pytest

from streamjob import job, state
from streamjob.protocol.errors import StreamJobError
from streamjob.protocol.formats.records import OperatorKind
from streamjob.state import StateNameTaken, StateOutsideBatch


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "_states", {})


def test_it_is_a_small_list_of_strings() -> None:
    seen = job.list_state("seen")
    seen.append("a")
    seen.extend(["b", "c"])
    assert (list(seen), len(seen), "b" in seen) == (["a", "b", "c"], 3, True)
    seen.replace(e.upper() for e in seen)
    assert list(seen) == ["A", "B", "C"]
    for entry in seen:  # over what it was when the loop began
        seen.append(entry)
    assert len(seen) == 6
    seen.clear()
    assert not seen


@pytest.mark.parametrize("what", [1, None, b"a", ["a"]])
def test_an_entry_is_a_string(what: object) -> None:
    seen = job.list_state("seen")
    with pytest.raises(TypeError, match="string"):
        seen.append(what)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="several"):
        seen.extend("abc")
    assert list(seen) == []


def test_row9_a_state_is_known_by_its_query_and_name() -> None:
    seen = job.list_state("seen", "orders")
    assert job.list_state("seen", "orders") is seen
    assert job.union_state("seen", "totals") is not seen
    assert [s.kind for s in state.of("totals")] == [OperatorKind.UNION]
    assert job.broadcast_state("rules").query == job.ONLY_QUERY


@pytest.mark.parametrize("name", ["", "sink", "source-0", "state-12", "splits"])
def test_a_state_has_no_name_of_another_operator(name: str) -> None:
    with pytest.raises(StateNameTaken):
        job.list_state(name)


def test_a_state_has_one_kind() -> None:
    job.list_state("seen")
    with pytest.raises(StateNameTaken, match="ListState and as BroadcastState"):
        job.broadcast_state("seen")


def test_once_it_is_kept_it_changes_only_in_a_batch() -> None:
    seen = job.list_state("seen")
    seen.append("initial")
    assert seen.hold() == ("initial",)
    for change in (seen.clear, lambda: seen.append("x"), lambda: seen.replace([])):
        with pytest.raises(StateOutsideBatch, match="seen") as refused:
            change()
        assert isinstance(refused.value, StreamJobError)
    seen.open(["from the batch before"])
    seen.append("in the batch")
    assert seen.close() == ("from the batch before", "in the batch")
    with pytest.raises(StateOutsideBatch):
        seen.append("x")
    assert seen.hold() == ("initial",), "what it begins with does not change any more"
