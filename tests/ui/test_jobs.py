"""Jobs in memory: who is told of which change; figures over time; what the buttons change."""

from __future__ import annotations

import copy
import json
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import datetime, timezone
from typing import Any

import pytest

from streamjob.api import Spec, Specification
from streamjob.cli.options import Options
from streamjob.cli.ui import history, server
from streamjob.cli.ui.cluster import ClusterJobs
from streamjob.cli.ui.history import History
from streamjob.cli.ui.jobs import Change, Jobs
from streamjob.cli.ui.requests import Request, UnknownRequest, named, patch
from streamjob.cli.ui.specification import UnknownSpecification, differences

from . import recorded

NOW = datetime(2026, 11, 26, 3, 0, tzinfo=timezone.utc)


@pytest.fixture
def jobs() -> Jobs:
    return Jobs(ClusterJobs(Options().kubectl, all_namespaces=True), clock=lambda: 1000.0)


def job(name: str, **status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "streams", "uid": f"u-{name}"},
        "spec": {},
        "status": status,
    }


def names(change: Change | None) -> list[str]:
    assert change is not None
    return sorted(found["metadata"]["name"] for found in change.jobs)


def test_a_page_is_told_everything_first_then_what_changes(jobs: Jobs) -> None:
    jobs.put(job("a"))
    jobs.put(job("b"))
    page = jobs.subscribe()
    assert names(page.next(0)) == ["a", "b"]
    assert page.next(0) is None
    jobs.put(job("b", phase="Running"))
    assert names(page.next(0)) == ["b"]


def test_a_page_without_jobs_is_told_so(jobs: Jobs) -> None:
    assert names(jobs.subscribe().next(0)) == []


def test_many_changes_of_a_job_are_one(jobs: Jobs) -> None:
    page = jobs.subscribe()
    page.next(0)
    for epoch in range(1000):
        jobs.put(job("a", epoch=epoch))
    found = page.next(0)
    assert found is not None
    assert [j["status"]["epoch"] for j in found.jobs] == [999]


def test_the_same_state_again_is_no_change(jobs: Jobs) -> None:
    jobs.put(job("a", phase="Running"))
    page = jobs.subscribe()
    page.next(0)
    jobs.put(job("a", phase="Running"))
    assert page.next(0) is None


def test_an_answer_does_not_undo_what_the_watch_has_reported_meanwhile(jobs: Jobs) -> None:
    jobs.put(job("a", phase="Running"))
    asked = jobs.find("streams", "a")
    assert asked is not None
    jobs.answered(job("a", phase="Stopping"), before=asked)
    assert jobs.find("streams", "a") == job("a", phase="Stopping")
    jobs.put(job("a", phase="Stopped"))
    jobs.answered(job("a", phase="Stopping"), before=asked)
    assert jobs.find("streams", "a") == job("a", phase="Stopped")


def test_what_was_deleted_while_nobody_watched(jobs: Jobs) -> None:
    jobs.put(job("a"))
    jobs.put(job("b"))
    page = jobs.subscribe()
    page.next(0)
    jobs.replace([job("b")])
    found = page.next(0)
    assert found is not None
    assert (found.deleted, found.jobs) == (("u-a",), ())
    assert jobs.find("streams", "a") is None


def test_a_job_that_is_asked_for_before_the_first_list_has_come_is_waited_for(jobs: Jobs) -> None:
    with ThreadPoolExecutor() as pool:
        asked = pool.submit(jobs.find, "streams", "a")
        assert not wait([asked], 0.2).done
        jobs.replace([job("a")])
        assert asked.result() == job("a")


def test_what_the_page_never_shows_is_not_sent(jobs: Jobs) -> None:
    one = job("a")
    one["metadata"] |= {
        "managedFields": [{}],
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "x"},
    }
    jobs.put(one)
    found = jobs.subscribe().next(0)
    assert found is not None
    assert found.jobs[0]["metadata"] == {"name": "a", "namespace": "streams", "uid": "u-a", "annotations": {}}


def test_a_thousand_jobs_come_in_parts_and_the_last_one_says_so() -> None:
    everything = tuple(job(str(i)) for i in range(1000))
    sent = [
        json.loads(m.decode().removeprefix("data: ")) for m in server.messages(Change(everything, ("gone",)))
    ]
    assert [part["complete"] for part in sent] == [False] * 9 + [True]
    assert [j["metadata"]["name"] for part in sent for j in part["jobs"]] == [str(i) for i in range(1000)]
    assert [part["deleted"] for part in sent] == [[]] * 9 + [["gone"]]


# --- figures over time --------------------------------------------------------------------------------------


def test_figures_are_kept_when_they_change_and_for_two_hours() -> None:
    past, one = History(), recorded.orders(NOW)
    past.add(one, 100.0)
    past.add(one, 105.0)
    assert [time for time, _ in past.of(recorded.UID)["orders"]] == [100.0]
    changed = recorded.orders(NOW, 100.0)
    past.add(changed, 110.0)
    assert [time for time, _ in past.of(recorded.UID)["orders"]] == [100.0, 110.0]
    assert [time for time, _ in past.of(recorded.UID, after=105.0)["orders"]] == [110.0]
    past.add(one, history.SECONDS + 105.0)
    assert [time for time, _ in past.of(recorded.UID)["orders"]] == [110.0, history.SECONDS + 105.0]
    past.forget(recorded.UID)
    assert past.of(recorded.UID) == {}


def test_lag_of_several_sources_is_the_sum_and_the_oldest() -> None:
    sources = [
        {"lagRows": 10, "lagSeconds": 2.0},
        {"lagRows": 5, "lagSeconds": 9.5, "lagFiles": 1},
        {"uid": "x"},
    ]
    assert history.sample({"sources": sources}) == {"lagRows": 15, "lagFiles": 1, "lagSeconds": 9.5}


def test_a_job_without_a_driver_has_no_figures() -> None:
    past, one = History(), recorded.orders(NOW)
    past.add(one, 100.0)
    past.add(recorded.drained(NOW), 101.0)
    assert past.of(recorded.UID)["orders"][1] == (101.0, {})


# --- requests -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "spec"),
    [
        (Request.STOP, {"state": "Stopped"}),
        (Request.DRAIN, {"state": "Drained"}),
        (Request.CANCEL, {"state": "Cancelled"}),
        (Request.SUSPEND, {"suspend": True}),
        (Request.RESUME, {"state": "Running", "suspend": False}),
    ],
)
def test_what_a_button_changes(request_: Request, spec: dict[str, Any]) -> None:
    assert patch(request_, recorded.orders(NOW)) == {"spec": spec}


@pytest.mark.parametrize(
    ("request_", "part"), [(Request.SAVEPOINT, "savepoint"), (Request.RESTART, "restart")]
)
def test_a_nonce_is_raised_from_what_the_page_has_seen(request_: Request, part: str) -> None:
    one = recorded.orders(NOW)
    one["metadata"]["resourceVersion"] = "17"
    assert patch(request_, one) == {"metadata": {"resourceVersion": "17"}, "spec": {part: {"nonce": 1}}}
    one["spec"][part]["nonce"] = 4
    assert patch(request_, one)["spec"] == {part: {"nonce": 5}}


def test_an_unknown_request() -> None:
    with pytest.raises(UnknownRequest, match="Reload"):
        named("explode")


# --- what an upgrade changes --------------------------------------------------------------------------------


def test_the_fields_in_which_driver_and_spec_differ() -> None:
    spec = recorded.orders(NOW)["spec"]
    running = Specification.of(Spec.model_validate(spec)).text
    assert differences(running, spec) == []
    wanted = copy.deepcopy(spec)
    wanted["image"] = "registry.example/orders:1.5.0"
    wanted["sparkConf"]["spark.sql.shuffle.partitions"] = "128"
    wanted["driver"].pop("memory")
    wanted["checkpoint"]["interval"] = "5m"  # restarts nothing
    assert differences(running, wanted) == [
        ("driver.memory", "2Gi", None),
        ("image", "registry.example/orders:1.4.2", "registry.example/orders:1.5.0"),
        ("sparkConf[spark.sql.shuffle.partitions]", "64", "128"),
    ]


def test_a_spec_of_a_newer_operator_is_not_guessed_at() -> None:
    spec = recorded.orders(NOW)["spec"]
    running = Specification.of(Spec.model_validate(spec)).text
    with pytest.raises(UnknownSpecification, match="Update"):
        differences(running, {**spec, "runtime": "FromTheMoon"})
