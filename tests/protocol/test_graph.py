"""Stages, task ids and edges."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamjob.protocol.graph import Graph, GraphCycle, parse_task_id, task_id


@given(
    st.text(min_size=1, max_size=8),
    st.integers(1, 9).flatmap(lambda p: st.tuples(st.integers(0, p - 1), st.just(p))),
)
def test_a_task_id_tells_stage_and_shard_whatever_the_name(uid: str, shard: tuple[int, int]) -> None:
    index, parallelism = shard
    assert parse_task_id(task_id(uid, index, parallelism)) == (uid, index)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (task_id("orders"), "orders"),
        (task_id("orders", 0, 2), "orders/0"),
        (task_id("orders", 3, 4), "orders/3"),
        (task_id("a/1"), "a/1/0"),
        (task_id("a/b"), "a/b"),
        (task_id("a/01"), "a/01"),
    ],
)
def test_task_ids(made: str, expected: str) -> None:
    assert made == expected


edges = st.lists(st.tuples(st.sampled_from("ABCDEF"), st.sampled_from("ABCDEF")), max_size=14)


@given(edges)
def test_an_edge_is_refused_exactly_if_it_closes_a_circle(declared: list[tuple[str, str]]) -> None:
    graph, accepted = Graph(), set[tuple[str, str]]()

    def reaches(a: str, b: str) -> bool:
        return a == b or any(reaches(t, b) for s, t in accepted if s == a)

    for source, target in declared:
        before = repr(graph)
        if reaches(target, source):
            with pytest.raises(GraphCycle, match=f"{source} → {target}"):
                graph.add(target, [source])
            assert repr(graph) == before
        else:
            graph.add(target, [source])
            accepted.add((source, target))
    for stage in graph.stages:
        known = {s for s, t in accepted if t == stage and s in graph.stages}
        assert {s.uid for s in graph.upstream(stage)} == known
        assert {s.uid for s in graph.downstream(stage)} == {
            t for s, t in accepted if s == stage and t in graph.stages
        }


@given(edges)
def test_every_edge_is_reported_once_when_both_ends_are_there(declared: list[tuple[str, str]]) -> None:
    graph, reported = Graph(), list[tuple[str, str]]()
    for source, target in declared:
        if source < target:
            reported += [(a.uid, b.uid) for a, b in graph.add(target, [source])]
    assert sorted(reported) == sorted({(s.uid, t) for t in graph.stages for s in graph.upstream(t)})


def test_w2_an_assumed_edge_counts_until_it_is_dropped() -> None:
    graph = Graph()
    graph.expect("clean")
    graph.add("totals")
    edges = graph.assume("totals", ["clean"])
    assert [(a.uid, b.uid) for a, b in edges] == [("clean", "totals")]
    assert [s.uid for s in graph.upstream("totals")] == ["clean"]
    assert graph.drop_assumed() == [], "its writer has not started"
    graph.add("clean")
    assert [(a.uid, b.uid) for a, b in graph.drop_assumed()] == [("clean", "totals")]
    assert graph.upstream("totals") == graph.downstream("clean") == []


def test_w2_an_assumed_edge_that_is_shown_stays() -> None:
    graph = Graph()
    graph.expect("clean")
    graph.add("totals")
    graph.assume("totals", ["clean"])
    graph.connect("totals", ["clean"])
    graph.add("clean")
    assert graph.drop_assumed() == []
    assert [s.uid for s in graph.upstream("totals")] == ["clean"]


def test_w2_an_assumed_edge_refuses_no_circle() -> None:
    """The script has turned it round since."""
    graph = Graph()
    graph.expect("clean")
    graph.add("totals")
    graph.assume("totals", ["clean"])
    graph.refuse_cycle("clean", ["totals"])
    graph.add("clean", ["totals"])
    assert [(a.uid, b.uid) for a, b in graph.break_circles()] == [("clean", "totals")]
    assert [s.uid for s in graph.upstream("clean")] == ["totals"]


def test_w2_assumed_edges_close_no_circle_among_themselves() -> None:
    graph = Graph()
    graph.add("a")
    graph.add("b", ["a"])
    graph.add("c")
    graph.add("d", ["c"])
    graph.assume("c", ["b"])
    assert graph.assume("a", ["d"]) == []
    assert graph.break_circles() == []
