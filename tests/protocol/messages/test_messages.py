"""What controller and driver say to each other, and the last word of a driver in 4 KiB."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamjob.protocol.errors import FormatError
from streamjob.protocol.formats import codec
from streamjob.protocol.formats.records import CheckpointRecord, JobRef, OperatorKind, OperatorRecord
from streamjob.protocol.lifecycle import TaskState
from streamjob.protocol.messages.commands import REQUEST_LIMIT, Completed, Mode, TerminationRequest
from streamjob.protocol.messages.driver_config import Application, DriverConfig, Restore
from streamjob.protocol.messages.driver_status import (
    DriverPhase,
    DriverStatus,
    Problem,
    StageStatus,
    TaskStatus,
    TerminationStatus,
    TerminationStep,
)
from streamjob.protocol.messages.figures import QueryFigures
from streamjob.protocol.messages.final_report import REPORT_LIMIT, read, report
from streamjob.protocol.restore import finished
from tests.protocol.formats.documents import (
    JUNK,
    damaged,
    edited,
    only_format_errors,
    record,
    records,
    refused,
)

# A builder takes its fields from the type hints; what a float holds must be a number to come back.
st.register_type_strategy(float, st.floats(allow_nan=False, allow_infinity=False))
KINDS = [DriverConfig, DriverStatus, TerminationRequest, Completed, Restore, Application]
long_texts = st.text(max_size=40) | st.sampled_from(
    ["x" * 3000, "é" * 1500, "\U0001f600" * 900, '"' * 3000, "\ud800" * 9]
)
problems = st.none() | st.builds(Problem, st.text(max_size=9), long_texts, long_texts, st.booleans())
operators = st.builds(
    OperatorRecord, long_texts, st.sampled_from(OperatorKind), st.text(max_size=9), st.booleans()
)
statuses = st.builds(
    DriverStatus,
    version=st.integers(0, 2**53),
    job_uid=st.text(max_size=36),
    epoch=st.integers(0, 2**31),
    phase=st.sampled_from(DriverPhase),
    stages=st.lists(
        st.builds(
            StageStatus,
            long_texts,
            st.lists(st.builds(TaskStatus, st.integers(0, 99), st.sampled_from(TaskState)), max_size=3).map(
                tuple
            ),
            st.lists(operators, max_size=4).map(tuple),
            input_rows_per_second=st.none() | st.floats(),
        ),
        max_size=4,
    ).map(tuple),
    termination=st.none()
    | st.builds(
        TerminationStatus,
        request_id=st.text(max_size=36),
        mode=st.sampled_from(Mode),
        step=st.sampled_from(TerminationStep),
        progress=long_texts,
        problem=problems,
    ),
    completed=st.none() | records(),
    evicted=st.booleans(),
    problem=problems,
)


@pytest.mark.parametrize("kind", KINDS)
def test_round_trip(kind: type[Any]) -> None:
    @given(st.from_type(kind))
    @settings(max_examples=40)
    def check(message: Any) -> None:
        assert codec.loads(kind, codec.dumps(message)) == message

    check()


CONFIG = codec.dumps(
    DriverConfig(
        JobRef("ns", "orders", "uid"), 3, Application("app.py"), "s3a://b/c", restore=Restore(record())
    )
)
REQUEST = codec.dumps(TerminationRequest("r1", 1, Mode.STOP, "s3a://b/s"))
STATUS = codec.dumps(
    DriverStatus(
        4,
        "uid",
        1,
        DriverPhase.TERMINATING,
        (StageStatus("orders", (TaskStatus(0, TaskState.RUNNING),), input_rows_per_second=1.5),),
        TerminationStatus("r1", Mode.STOP, TerminationStep.BOUNDARY),
        record(),
    )
)
TEXTS = [(DriverConfig, CONFIG), (TerminationRequest, REQUEST), (DriverStatus, STATUS)]


@pytest.mark.parametrize(("kind", "text"), TEXTS)
def test_damaged(kind: type[Any], text: str) -> None:
    @given(damaged(text.encode()) | edited(text))
    def check(data: bytes | str) -> None:
        only_format_errors(lambda d: codec.loads(kind, d), data)

    check()


@pytest.mark.parametrize("junk", JUNK, ids=lambda j: repr(j[:12]))
def test_junk(junk: bytes) -> None:
    for kind in KINDS:
        if kind in (Restore, Application) and junk in (b"{}",):
            continue  # every field of theirs has a default
        refused(lambda d, kind=kind: codec.loads(kind, d), junk)


def test_a_command_has_its_own_limit() -> None:
    body = json.dumps({"epoch": 1}) + " " * REQUEST_LIMIT
    assert "at most 65536" in refused(lambda d: codec.loads(Completed, d, limit=REQUEST_LIMIT), body)


def test_what_is_for_display_only_is_left_out_for_an_earlier_controller() -> None:
    """It would refuse the whole status because of a field that it does not know."""
    task = TaskStatus(0, TaskState.RUNNING, 3, TerminationStep.BOUNDARY)
    stage = StageStatus("sums", (task,), upstream=("copy",), figures=QueryFigures())
    status = DriverStatus(4, "uid", 1, DriverPhase.TERMINATING, (stage,))
    for name in ("upstream", "step", "figures"):
        assert f'"{name}"' in codec.dumps(status)
        assert f'"{name}"' not in codec.dumps(status.without_figures())
        assert f'"{name}"' not in report(status)


# --- the final report ---------------------------------------------------------------------------------------


@given(statuses)
@settings(max_examples=150, deadline=None)
def test_a_report_always_fits_and_keeps_what_matters(status: DriverStatus) -> None:
    text = report(status)
    assert len(text.encode()) <= REPORT_LIMIT
    found = read(text)
    assert (found.version, found.job_uid, found.epoch) == (status.version, status.job_uid, status.epoch)
    assert (found.phase, found.evicted) == (status.phase, status.evicted)
    assert found.completed is not None or status.completed is None
    if status.completed and found.completed:
        assert found.completed in (status.completed, replace(status.completed, stages=()))


def status(**fields: Any) -> DriverStatus:
    return DriverStatus(9, "uid", 2, DriverPhase.TERMINATED, **fields)


def test_a_short_status_is_reported_whole() -> None:
    whole = codec.loads(DriverStatus, STATUS)
    assert report(whole) == STATUS


def test_a_long_problem_without_a_checkpoint() -> None:
    """A script that died at its start: no checkpoint, no stages, and a traceback of any length."""
    found = read(report(status(problem=Problem("ScriptFailed", "x" * 99_999, "Look"))))
    assert found.problem == Problem("ScriptFailed", "x" * 1000, "Look")


def test_a_long_problem_in_any_script() -> None:
    found = read(report(status(problem=Problem("ScriptFailed", "\U0001f600" * 9999))))
    assert found.problem
    assert found.problem.message.startswith("\U0001f600" * 100)


def test_a_long_line_of_progress() -> None:
    termination = TerminationStatus(
        "r1", Mode.DRAIN, TerminationStep.CLOSED, "p" * 99_999, 7, 69, 3, Problem("Slow", "m" * 99_999)
    )
    found = read(report(status(termination=termination, completed=record(7))))
    assert found.completed == record(7)
    assert found.termination
    assert (
        found.termination.request_id,
        found.termination.final_checkpoint,
        found.termination.flushed_rows,
        found.termination.state_rows_left,
    ) == ("r1", 7, 69, 3)


def of_random_uids(stages: int, savepoint: str | None) -> CheckpointRecord:
    """A record that nothing makes much smaller."""
    whole = record(7, stages=stages, savepoint=savepoint)
    uids = (uuid.UUID(int=Random(n).getrandbits(128)).hex for n in range(stages))
    return replace(
        whole, stages=tuple(replace(s, uid=uid) for s, uid in zip(whole.stages, uids, strict=True))
    )


@pytest.mark.parametrize("stages", [8, 40])
def test_w8_a_large_checkpoint_without_a_savepoint_is_reported_with_its_finished_flags(stages: int) -> None:
    whole = of_random_uids(stages, None)
    flagged = (finished.flagged(s, [0] if i % 2 else []) for i, s in enumerate(whole.stages))
    whole = replace(whole, stages=tuple(flagged))
    assert read(report(status(completed=whole))).completed == whole


def test_w8_a_checkpoint_that_nobody_else_has_is_reported_whole_or_not_at_all() -> None:
    """Without its flags the next driver would start again what has finished."""
    found = read(report(status(completed=of_random_uids(200, None), problem=Problem("X", "m"))))
    assert found.completed is None
    assert found.problem


def test_a_large_checkpoint_with_a_savepoint_loses_its_stages_last() -> None:
    big = of_random_uids(200, "file:/savepoints/7")
    found = read(report(status(completed=big, problem=Problem("X", "m" * 9999), termination=None)))
    assert found.completed == replace(big, stages=())
    assert found.problem
    assert found.problem.reason == "X"


@pytest.mark.parametrize("text", ["zlib:", "zlib:no Base64", "zlib:aGVsbG8=", "{}"])
def test_what_is_no_report_is_refused(text: str) -> None:
    with pytest.raises(FormatError):
        read(text)


def test_a_place_is_kept_whole_or_not_at_all() -> None:
    for length in (100, 2000, 9000):
        place = "s3a://" + "".join(map(chr, Random(length).choices(range(48, 91), k=length)))
        found = read(
            report(status(completed=record(7, savepoint=place), problem=Problem("X", "m" * 9999)))
        ).completed
        assert (found.savepoint if found else None) == (place if length < 3000 else None)


@pytest.mark.parametrize("rate", [float("nan"), float("inf")])
def test_a_rate_that_is_no_number_does_not_cost_the_report(rate: float) -> None:
    stage = StageStatus("orders", (), input_rows_per_second=rate)
    assert read(report(status(stages=(stage,)))).stages[0].input_rows_per_second is None
