"""Savepoints that are kept no longer: which they are, in which order they go, and which never do."""

from __future__ import annotations

from typing import Any

from streamjob.controller.rules.actions import (
    Action,
    DeleteSavepoints,
    SendSavepoint,
    WriteIndex,
    deletion_token,
)
from streamjob.controller.rules.decide import decide
from streamjob.controller.rules.observed import Observed
from streamjob.controller.rules.policies.retention import about_to_go
from streamjob.protocol.formats import index as indices
from streamjob.protocol.formats.index import Index
from streamjob.protocol.messages.commands import SavepointDeletion
from streamjob.protocol.messages.driver_status import SavepointStatus

from ...factories import MINUTE, NOW, at, driver, index, job, observed, ran, record, running, terminating
from .test_savepoints import requested

PLACES = [f"file:///data/sp/x/savepoint-manual-{n}" for n in range(1, 6)]
STOPPED = record(1)


def savepoints(*numbers: int) -> list[Any]:
    return [record(n, scenario=None, request=f"savepoint-manual-{n}") for n in numbers]


FIVE = index(*savepoints(1, 2, 3, 4, 5))


def runs(
    known: Index, retained: dict[str, Any] | None = None, *, reported: Any = None, **more: Any
) -> Observed:
    status = more.pop("status", ran())
    spec = job(status=status, savepoint={"retained": retained or {}})
    return observed(spec, pods=[running()], index=known, reported=reported or driver(), **more)


def does(o: Observed) -> tuple[Action, ...]:
    return decide(o, NOW).actions


def test_by_default_nothing_is_deleted() -> None:
    assert does(runs(FIVE)) == ()


def test_the_index_forgets_it_then_the_driver_deletes_it_then_the_index_records_it() -> None:
    (write,) = does(runs(FIVE, {"count": 3}))
    assert isinstance(write, WriteIndex)
    assert write.index.to_delete == tuple(PLACES[:2])
    assert [c.savepoint for c in write.index.checkpoints] == [None, None, *PLACES[2:]]
    deletion = DeleteSavepoints(SavepointDeletion(1, tuple(PLACES[:2])))
    assert does(runs(write.index, {"count": 3})) == (deletion,)
    taken = frozenset({deletion_token(tuple(PLACES[:2]))})
    assert does(runs(write.index, {"count": 3}, acknowledged=taken)) == ()
    (done,) = does(
        runs(write.index, {"count": 3}, reported=driver(deleted=tuple(PLACES[:2])), acknowledged=taken)
    )
    assert isinstance(done, WriteIndex)
    assert [d.at for d in done.index.deleted] == [at(0 * MINUTE)] * 2
    assert does(runs(done.index, {"count": 3}, reported=driver(deleted=tuple(PLACES[:2])))) == ()


def test_another_driver_gets_it_again() -> None:
    marked = indices.retire(FIVE, PLACES[:1])
    o = runs(marked, status=ran(2), reported=driver(epoch=2))
    o = observed(o.job, pods=[running(2)], index=marked, reported=driver(epoch=2))
    assert does(o) == (DeleteSavepoints(SavepointDeletion(2, (PLACES[0],))),)


def test_by_age() -> None:
    """They are 5 s old. The newest stays however old it is."""
    (write,) = does(runs(FIVE, {"age": "4s"}))
    assert isinstance(write, WriteIndex)
    assert write.index.to_delete == tuple(PLACES[:4])
    assert does(runs(FIVE, {"age": "6s"})) == ()


def test_savepoints_of_stops_are_neither_deleted_nor_counted() -> None:
    known = index(STOPPED, *savepoints(2, 3))
    assert does(runs(known, {"count": 2, "age": "48h"})) == ()
    (write,) = does(runs(known, {"count": 1}))
    assert isinstance(write, WriteIndex)
    assert write.index.to_delete == (PLACES[1],)


def test_one_that_a_job_of_the_namespace_restores_from_stays() -> None:
    """Its own spec, or another's: whoever names it may be about to read it."""
    named = frozenset({PLACES[0].replace("file:///", "file:/") + "/"})
    assert does(runs(FIVE, {"count": 4}, restored_from=named)) == ()
    (write,) = does(runs(FIVE, {"count": 3}, restored_from=named))
    assert isinstance(write, WriteIndex)
    assert write.index.to_delete == (PLACES[1],)


def test_one_that_is_named_when_the_index_has_forgotten_it_is_not_deleted() -> None:
    (write,) = does(runs(FIVE, {"count": 3}))
    assert isinstance(write, WriteIndex)
    (deletion,) = does(runs(write.index, {"count": 3}, restored_from=frozenset({PLACES[0]})))
    assert deletion == DeleteSavepoints(SavepointDeletion(1, (PLACES[1],)))
    assert does(runs(write.index, {"count": 3}, restored_from=frozenset(PLACES))) == ()


def test_it_is_looked_up_only_when_one_is_about_to_go() -> None:
    """And nothing goes unless somebody has looked."""
    assert not about_to_go(runs(FIVE), NOW)
    assert not about_to_go(runs(FIVE, {"count": 5}), NOW)
    assert about_to_go(runs(FIVE, {"count": 4}), NOW)
    assert does(runs(FIVE, {"count": 4}, restored_from=None)) == ()


def test_not_while_a_savepoint_is_pending() -> None:
    status = ran(**requested(requestId="savepoint-manual-9"))
    o = observed(
        job(status=status, savepoint={"nonce": 7, "retained": {"count": 1}}),
        pods=[running()],
        index=FIVE,
        reported=driver(savepoint=SavepointStatus("savepoint-manual-9")),
    )
    assert [a for a in does(o) if not isinstance(a, SendSavepoint)] == []


def test_only_of_a_driver_that_runs() -> None:
    assert does(runs(FIVE, {"count": 1}, reported=terminating())) == ()
