"""Where a driver begins: the checkpoint or savepoint that it restores, and whether exactly."""

from __future__ import annotations

from typing import Any

import pytest

from streamjob.controller.rules.driver_config import driver_config
from streamjob.protocol.formats import codec
from streamjob.protocol.lifecycle import Scenario
from streamjob.protocol.messages.driver_config import Deps, DriverConfig
from streamjob.protocol.messages.driver_status import DriverPhase
from streamjob.protocol.messages.final_report import read, report

from ..factories import config, driver, index, job, large_record, ran, record


@pytest.mark.parametrize(
    ("started", "latest", "exact"),
    [
        (1, record(1, 1), True),
        (2, record(1, 1), False),  # a driver has run since
        (1, record(1, 1, scenario=None), False),  # taken while it ran on
        (1, record(1, 1, Scenario.DRAIN), True),
    ],
)
def test_exact_only_if_nothing_ran_since(started: int, latest: Any, exact: bool) -> None:
    assert config(3, started, index(latest)).restore.exact is exact


def test_the_named_savepoint_is_only_where_the_job_begins() -> None:
    spec: dict[str, Any] = {"restoreFrom": {"savepoint": "file:///data/sp/x"}}
    assert config(**spec).restore.savepoint == "file:///data/sp/x"
    assert config(2, 1, index(record()), **spec).restore.savepoint is None


def test_state_that_nobody_takes_may_be_left_by_each_epoch() -> None:
    """Also by an epoch that continues from the job's own checkpoint, as after an upgrade."""
    assert not config().restore.allow_non_restored_state
    for source in ({}, {"savepoint": "file:///data/sp/x"}):
        spec: dict[str, Any] = {"restoreFrom": {"allowNonRestoredState": True, **source}}
        assert config(**spec).restore.allow_non_restored_state
        later = config(2, 1, index(record()), **spec).restore
        assert (later.allow_non_restored_state, later.savepoint) == (True, None)


def test_checkpoint_numbers_continue_also_if_the_index_lost_some() -> None:
    status = ran(checkpoint={"latest": 9, "epoch": 1, "completedAt": "2026-01-01T00:00:00Z"})
    assert driver_config(job(status=status), index(record(3)), 2, 1, None).next_checkpoint == 10


def test_a_record_without_room_in_a_final_report_is_read_from_its_savepoint() -> None:
    """The index has it without its stages then; their finished flags were lost, and their transactions."""
    reported = read(report(driver(DriverPhase.TERMINATED, completed=large_record(2_000))))
    assert reported.completed is not None
    assert reported.completed.stages == ()
    restore = config(2, 1, index(reported.completed)).restore
    assert (restore.latest, restore.recorded, restore.exact) == (None, large_record(2_000).savepoint, True)
    assert config(2, 1, index(reported.completed)).next_checkpoint == 2
    spec: dict[str, Any] = {"restoreFrom": {"savepoint": "file:///data/sp/x"}}
    assert config(2, 1, index(reported.completed), **spec).restore.savepoint is None
    later = config(3, 2, index(reported.completed)).restore
    assert (later.recorded, later.exact) == (large_record(2_000).savepoint, False)


def test_the_driver_is_told_the_dependencies() -> None:
    spec = {
        "jars": ["/a.jar"],
        "packages": ["a:b:1"],
        "excludePackages": ["c:d"],
        "pyFiles": ["s3a://b/m.py"],
    }
    spec |= {"repositories": ["https://r/m2"], "files": ["/f"]}
    found = codec.loads(DriverConfig, codec.dumps(driver_config(job(deps=spec), None, 1, 0, None))).deps
    assert found == Deps(("/a.jar",), ("a:b:1",), ("c:d",), ("https://r/m2",), ("s3a://b/m.py",), ("/f",))
