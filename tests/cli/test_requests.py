"""What commands change in a job, with kubectl on an API server of ours: refusals, conflicts."""

from __future__ import annotations

import copy
from datetime import timedelta
from typing import Any

import pytest

from streamjob.cli.access.changes import ATTEMPTS, NotPossible, change
from streamjob.cli.commands import endings, run
from streamjob.cli.errors import ExitCode
from streamjob.cli.kubectl import Conflict
from streamjob.cli.options import Options
from streamjob.cli.printing import times
from streamjob.cli.views.ending import GOALS, look
from streamjob.cli.views.job import job
from streamjob.cli.views.progress import Outcome

from ..ui.api_server import ApiServer
from .test_transcript import NAMESPACE, runs, server

__all__ = ["server"]

CHOSEN = Options(namespace=NAMESPACE)
begin_round: Any = run.begin  # without the options of the command line


def ask(verb: str, **more: Any) -> int:
    asked = {"wait": False, "timeout": None, "yes": True} | more
    return endings.request(CHOSEN, "orders", GOALS[verb], **asked)


def in_phase(phase: str, state: str, **status: Any) -> dict[str, Any]:
    obj = copy.deepcopy(runs())
    obj["spec"]["state"] = state
    obj["status"] |= {"phase": phase, **status}
    return obj


def backs_off() -> dict[str, Any]:
    due = times.written(times.now() + timedelta(seconds=48))
    return {"count": 1, "epoch": 1, "nextAt": due}


@pytest.mark.parametrize("verb", ["stop", "resume", "suspend", "cancel"])
def test_a_drained_job_is_not_changed(server: ApiServer, verb: str) -> None:
    server.put("streamjobs", in_phase("Drained", "Drained"))
    with pytest.raises(NotPossible, match="orders is Drained, which is an end") as e:
        ask(verb)
    assert e.value.remedy
    assert not server.patches


def in_back_off() -> Any:
    due = times.written(times.now() + timedelta(seconds=48))
    return in_phase("Restarting", "Running", restarts={"count": 1, "epoch": 1, "nextAt": due})


def test_a_resume_begins_at_once_instead_of_after_the_back_off(
    server: ApiServer,
    capsys: pytest.CaptureFixture[str],
) -> None:
    server.put("streamjobs", in_back_off())
    assert ask("resume") == ExitCode.DONE
    assert server.patches == [{"spec": {"state": "Running", "suspend": False, "restart": {"nonce": 1}}}]
    assert "the next driver starts now, not in 4" in capsys.readouterr().out


def test_the_seconds_until_the_next_driver_are_no_news(
    server: ApiServer,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A line for each second would be a log of a clock."""
    server.put("streamjobs", in_back_off())
    assert ask("resume", wait=True, timeout=3.5) == ExitCode.TIMEOUT
    lines = capsys.readouterr().out.splitlines()
    assert len([line for line in lines if "the next driver starts in" in line]) <= 1


def test_a_patch_is_repeated_while_others_are_faster(server: ApiServer) -> None:
    server.put("streamjobs", runs())
    stale = CHOSEN.kubectl.get("streamjobs", "orders")

    def build(found: dict[str, Any]) -> dict[str, Any]:
        return {
            "metadata": {"resourceVersion": found["metadata"]["resourceVersion"]},
            "spec": {"suspend": True},
        }

    server.lags = ATTEMPTS - 1
    assert change(CHOSEN.kubectl, stale, build)["spec"]["suspend"] is True
    server.lags = ATTEMPTS
    with pytest.raises(Conflict):
        change(CHOSEN.kubectl, stale, build)
    assert len(server.patches) == 1


def in_rounds(phase: str, state: str = "Running", **rounds: Any) -> dict[str, Any]:
    obj = in_phase(phase, state, rounds=rounds)
    obj["spec"]["schedule"] = {"cron": "0 3 * * *", "nonce": 4}
    return obj


@pytest.mark.parametrize(
    ("phase", "rounds", "text"),
    [
        ("Waiting", {}, "orders: a round is requested\n"),
        ("Running", {"began": "2026-01-02T03:00:00Z"}, "when the present one has ended\n"),
    ],
)
def test_a_round_is_asked_for(
    server: ApiServer, capsys: pytest.CaptureFixture[str], phase: str, rounds: dict[str, str], text: str
) -> None:
    server.put("streamjobs", in_rounds(phase, **rounds))
    assert begin_round(CHOSEN, "orders") == ExitCode.DONE
    assert server.patches == [{"spec": {"schedule": {"nonce": 5}}}]
    assert capsys.readouterr().out.endswith(text)


@pytest.mark.parametrize(
    ("obj", "text"),
    [
        (in_phase("Running", "Running"), "has no spec.schedule"),
        (in_rounds("Stopped", "Stopped"), "orders is Stopped, so no round begins"),
    ],
)
def test_no_round_is_asked_for_that_would_not_begin(
    server: ApiServer, obj: dict[str, Any], text: str
) -> None:
    server.put("streamjobs", obj)
    with pytest.raises(NotPossible, match=text) as e:
        begin_round(CHOSEN, "orders")
    assert e.value.remedy
    assert not server.patches


def test_a_job_that_waits_for_its_round_is_resumed() -> None:
    ready = {"type": "Ready", "status": "True", "reason": "Waiting", "message": "It waits"}
    obj = in_rounds("Waiting")
    obj["status"] |= {"conditions": [ready], "observedGeneration": obj["metadata"]["generation"]}
    assert look(GOALS["resume"], job(obj), times.now()).outcome is Outcome.REACHED
