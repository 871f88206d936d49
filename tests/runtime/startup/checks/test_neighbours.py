"""What two queries of a job, and two jobs, may not have in common."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from streamjob.protocol.errors import StreamJobError
from streamjob.runtime.query.edges import Channel, Endpoints
from streamjob.runtime.query.places.claim import Claim
from streamjob.runtime.query.places.owner import Owner
from streamjob.runtime.startup.checks.neighbours import (
    refuse_hidden_rows,
    refuse_other_job,
    refuse_shared_place,
)

BARE = Claim("b", "b")


def lake(name: str, folder: str | None = None) -> Channel:
    return Channel("table", frozenset({name}), folder=folder)


def refusal(mine: Claim, other: Claim, *, ended: bool = False) -> StreamJobError | None:
    try:
        refuse_shared_place(mine, [other], lambda _: ended)
    except StreamJobError as e:
        return e
    return None


@pytest.mark.parametrize(
    ("mine", "other"),
    [
        (Claim("b", "b", directory="file:/chk"), Claim("a", "a", directory="file:/chk2")),
        (Claim("b", "b", folder="file:/out"), Claim("a", "a", folder="file:/out/b")),
        (Claim("b", "b", commits="file:/out"), Claim("a", "a", commits="file:/out")),  # shards do
        (Claim("b", "b", table=lake("t")), Claim("a", "a", table=lake("t"))),  # both append
        (Claim("b", "b", table=lake("t"), replaces=True), Claim("a", "a", table=lake("u"))),
        (BARE, Claim("a", "a")),
        (Claim("b", "b", folder="file:/out"), Claim("b", "b", folder="file:/out")),  # started again
    ],
)
def test_what_two_queries_may_have(mine: Claim, other: Claim) -> None:
    assert refusal(mine, other) is None
    assert refusal(other, mine) is None


@pytest.mark.parametrize(
    ("mine", "other", "reason"),
    [
        (
            Claim("b", "b", directory="file:/chk"),
            Claim("a", "a", directory="file:/chk"),
            "CheckpointShared",
        ),
        (Claim("b", "b", folder="file:/out"), Claim("a", "a", folder="file:/out"), "SinkShared"),
        (Claim("b", "b", folder="file:/out"), Claim("a", "a", commits="file:/out"), "SinkShared"),
        (Claim("b", "b", table=lake("t"), replaces=True), Claim("a", "a", table=lake("T")), "SinkShared"),
        (
            Claim("b", "b", table=Channel("files", frozenset({"file:/t"})), replaces=True),
            Claim("a", "a", table=lake("t", "file:/t")),
            "SinkShared",
        ),
    ],
)
def test_what_only_one_query_may_have(mine: Claim, other: Claim, reason: str) -> None:
    for one, two in ((mine, other), (other, mine)):
        refused = refusal(one, two)
        assert refused is not None
        assert refused.reason == reason
        assert "'a'" in refused.message
        assert "'b'" in refused.message


def test_a_checkpoint_directory_stays_with_a_query_that_has_ended() -> None:
    mine, other = replace(BARE, directory="file:/chk"), Claim("a", "a", directory="file:/chk")
    refused = refusal(mine, other, ended=True)
    assert refused is not None
    assert refused.reason == "QueryChanged"


def test_a_folder_stays_with_a_query_that_has_ended() -> None:
    mine, other = replace(BARE, folder="file:/out"), Claim("a", "a", folder="file:/out")
    refused = refusal(mine, other, ended=True)
    assert refused is not None
    assert refused.reason == "SinkShared"


@pytest.mark.parametrize(
    ("writer", "folder", "wrote", "reason"),
    [
        ("a", "file:/out", "file:/out", "SinkShared"),
        ("a", "file:/out", "file:/elsewhere", None),
        ("a", None, "file:/out", None),
        ("b", "file:/out", "file:/out", None),
    ],
)
def test_a_file_sink_where_a_foreach_batch_function_has_written(
    writer: str, folder: str | None, wrote: str, reason: str | None
) -> None:
    run: Any = SimpleNamespace(
        task=writer,
        name=SimpleNamespace(name=writer),
        ends=Endpoints(wrote=(Channel("files", frozenset({wrote})),)),
    )

    def check() -> None:
        refuse_hidden_rows(replace(BARE, folder=folder), [run])

    if reason is None:
        return check()
    with pytest.raises(StreamJobError, match=r"'b' writes to .* query 'a' has written") as refused:
        check()
    assert refused.value.reason == reason


def test_the_checkpoint_directory_of_another_job() -> None:
    mine = Owner("streamjob.owner", 1, "shop/orders", "uid-1", "file:/chk", "counts", "file:/data/chk")
    theirs = Owner("streamjob.owner", 1, "shop/bills", "uid-2", "file:/other", "sums", "file:/data/chk")
    with pytest.raises(StreamJobError) as refused:
        refuse_other_job(theirs, mine)
    assert refused.value.reason == "CheckpointShared"
    assert "query 'sums' of job shop/bills" in refused.value.message
    assert "query 'counts' of job shop/orders" in refused.value.message
    refuse_other_job(replace(theirs, uid="uid-1"), mine)  # its storage has moved
    refuse_other_job(replace(theirs, home="file:/chk"), mine)  # it was created again
