"""The end of a driver's log in a condition: short, and without secrets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamjob.api import ConditionType, Phase
from streamjob.controller.reports.log_redaction import ALL, LINES, end_of_log, without_secrets
from streamjob.protocol.messages.driver_status import DriverPhase, Problem

from ..factories import driver, exited, failed, index, job, look, observed, ran

SECRET = "hunter2-hunter2"
TRACEBACK = """Starting
Traceback (most recent call last):
  File "/app/orders.py", line 12, in <module>
    import pandas

ModuleNotFoundError: No module named 'pandas'
"""


def test_a_job_that_backs_off_has_the_end_of_its_log() -> None:
    end = exited(1, tail=end_of_log(TRACEBACK))
    phase, reason, _, d = look(observed(job(status=ran()), pods=[end], index=index()))
    assert (phase, reason) == (Phase.RESTARTING, "DriverExited")
    for kind in ConditionType.READY, ConditionType.RECONCILING:
        condition = d.status.condition(kind)
        assert condition is not None
        assert 'File "/app/orders.py", line 12' in condition.message
        assert "No module named 'pandas'" in condition.message
        assert "See the driver's log" in condition.message, "the remedy stays"


def test_so_has_one_that_has_failed_permanently() -> None:
    end = exited(1, 2, tail=end_of_log(TRACEBACK))
    o = observed(
        job(status=ran(2, restarts=failed(count=3)), restart={"limit": 3}), pods=[end], index=index()
    )
    phase, reason, _, d = look(o)
    assert (phase, reason) == (Phase.FAILED, "RestartLimitReached")
    assert "No module named 'pandas'" in d.status.conditions[0].message


def test_what_a_script_raises_is_read_as_critically() -> None:
    problem = Problem("ScriptFailed", f"OperationalError: password={SECRET} is wrong", "Fix it", True)
    end = exited(1, report=driver(DriverPhase.FAILED, problem=problem))
    *_, d = look(observed(job(status=ran()), pods=[end], index=index()))
    shown = str(d.status)
    assert "OperationalError" in shown
    assert SECRET not in shown


@pytest.mark.parametrize(
    "line",
    [
        f"password={SECRET}",
        f'{{"db.password": "{SECRET} and more"}}',
        f"spark.hadoop.fs.s3a.secret.key={SECRET}",
        f"fs.s3a.access.key: {SECRET}",
        f"AWS_SECRET_ACCESS_KEY={SECRET}",
        f"--api-key={SECRET} --verbose",
        f"jdbc:postgresql://db/x?user=a&password={SECRET}&ssl=true",
        f"postgres://admin:{SECRET}@db:5432/x",
        f"Authorization: Bearer {SECRET}",
        f"'token': '{SECRET}'",
        f"sasl.jaas.config=\"x required username='u' password='{SECRET}';\"",
        f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}\n-----END RSA PRIVATE KEY-----",
        f"-----BEGIN PRIVATE KEY-----\n{SECRET}",
    ],
)
def test_what_looks_like_a_secret_is_redacted(line: str) -> None:
    shown = end_of_log(f"before\n{line}\nafter")
    assert SECRET not in shown
    assert "before" in shown or "PRIVATE" in line


@pytest.mark.parametrize(
    "text", ["AKIAIOSFODNN7EXAMPLE", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NSJ9.c2lnbmF0dXJl"]
)
def test_also_by_its_own_form(text: str) -> None:
    assert text not in without_secrets(f"the key {text} was refused")


@pytest.mark.parametrize(
    "line",
    [
        "ModuleNotFoundError: No module named 'pandas'",
        "pyspark.errors.AnalysisException: [PATH_NOT_FOUND] s3a://bucket/in/2026-01-01",
        "java.lang.OutOfMemoryError: Java heap space",
        "FileNotFoundError: [Errno 2] '/data/tokens/a.csv'",
    ],
)
def test_what_does_not_stays_as_it_is(line: str) -> None:
    assert end_of_log(line) == line


@given(st.text(max_size=5000))
def test_it_is_short(log: str) -> None:
    shown = end_of_log(log)
    assert len(shown) <= ALL
    assert len(shown.splitlines()) <= LINES
    assert without_secrets(shown) == shown or "***" in shown


def test_a_secret_is_not_hidden_by_being_cut() -> None:
    """Cut first, the name would be gone and the value would stay."""
    shown = end_of_log("password=" + '"' + " ".join([SECRET] * 100) + '"')
    assert SECRET not in shown
