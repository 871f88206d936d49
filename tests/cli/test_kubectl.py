"""What is passed to kubectl, and what is made of its answers."""

from __future__ import annotations

import json
import os
import shlex
import signal

import pytest

from streamjob.cli.errors import ExitCode, Interrupted
from streamjob.cli.kubectl import Kubectl
from streamjob.cli.kubectl_errors import Forbidden, KubectlError, NotFound, Refused, error
from streamjob.cli.kubectl_output import documents


def test_the_users_program_options_and_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    k = Kubectl(("--context", "prod", "--as", "jane"), "streams")
    monkeypatch.delenv("KUBECTL", raising=False)
    choice = ["--context", "prod", "--as", "jane", "--namespace", "streams"]
    assert k.command("get", "x") == ["kubectl", *choice, "get", "x"]
    monkeypatch.setenv("KUBECTL", "microk8s kubectl")
    assert k.command("get", "x") == ["microk8s", "kubectl", *choice, "get", "x"]


@pytest.mark.parametrize(
    ("text", "kind", "remedy"),
    [
        (
            'Error from server (NotFound): streamjobs.streamjob.dev "orders" not found',
            NotFound,
            "status -A",
        ),
        (
            'Error from server (Forbidden): streamjobs.streamjob.dev is forbidden: User "jane" cannot list',
            Forbidden,
            "permission",
        ),
        (
            'error: the server doesn\'t have a resource type "streamjobs"',
            KubectlError,
            "install the operator's chart",
        ),
        (
            'The StreamJob "orders" is invalid: spec.state: Invalid value: a drain is an end',
            Refused,
            "",
        ),
        ("error: You must be logged in to the server (Unauthorized)", KubectlError, "Log in"),
        (
            "The connection to the server localhost:8080 was refused - did you specify the right host?",
            KubectlError,
            "kubectl version",
        ),
        ('error: context "prod" does not exist', KubectlError, "get-contexts"),
        ("error: something new", KubectlError, ""),
    ],
)
def test_errors_keep_kubectls_words_and_say_what_to_do(
    text: str, kind: type[KubectlError], remedy: str
) -> None:
    found = error(text)
    assert type(found) is kind
    assert found.message == text.removeprefix("error: "), "the command says that it is one"
    assert remedy in found.remedy
    assert bool(found.remedy) == bool(remedy)


def test_the_log_of_kubectls_library_is_not_what_it_says() -> None:
    log = 'E1127 07:52:30.277219   10458 memcache.go:265] "Unhandled Error" err="connection refused"'
    said = "The connection to the server localhost:8080 was refused - did you specify the right host or port?"
    assert error(f"{log}\n{log}\n{said}").message == said
    assert str(error(said)).startswith(f"{said} See whether")
    assert error(log).message == log, "if it says nothing else"


def test_ctrl_c_during_a_change_says_that_it_may_have_been_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """kubectl may have been answered, and not yet have ended."""
    script = f"kill -INT {os.getpid()}; exec sleep 20"
    monkeypatch.setenv("KUBECTL", f"sh -c {shlex.quote(script)}")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(Interrupted, match="x was being changed") as e:
            Kubectl().patch("streamjobs", "x", {})
    finally:
        signal.signal(signal.SIGINT, before)
    assert e.value.exit_code is ExitCode.INTERRUPTED
    assert "get streamjobs x" in e.value.remedy


def test_a_kubectl_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECTL", "/nowhere/kubectl")
    with pytest.raises(KubectlError, match="/nowhere/kubectl") as e:
        Kubectl().get("pods", "x")
    assert "variable KUBECTL" in e.value.remedy
    with pytest.raises(KubectlError):
        Kubectl().watch("pods")


@pytest.mark.parametrize(
    ("script", "code", "shown"),
    [
        ("echo out; echo it says >&2", 0, "it says\n"),
        ("echo out; echo 'command terminated with exit code 1' >&2; exit 1", 1, ""),
        ("printf 'no end' >&2; echo 'command terminated with exit code 1' >&2; exit 1", 1, "no end\n"),
        (
            "echo 'error: of its own' >&2; echo 'command terminated with exit code 2' >&2; exit 2",
            2,
            "error: of its own\n",
        ),
    ],
)
def test_what_runs_in_a_container_has_our_output(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], script: str, code: int, shown: str
) -> None:
    monkeypatch.setenv("KUBECTL", f"sh -c {shlex.quote(script)}")
    assert Kubectl().execute("p", "driver", ["verify"]) == code
    assert capfd.readouterr().err == shown


@pytest.mark.parametrize(
    "script",
    [
        "echo half >&2; echo 'error: Internal error occurred: stream lost' >&2; exit 1",
        "echo 'E1127 10:00:00.000000 1 websocket.go:296] stream lost' >&2; exit 1",
        "echo 'command terminated with exit code 1' >&2; echo 'error: stream lost' >&2; exit 1",
        "echo 'E1127 10:00:00.0 1 w.go:296] stream lost, Unknown stream id 1, discarding message' >&2",
    ],
)
def test_a_command_that_kubectl_has_lost_has_found_nothing(
    monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    """Its exit code is that of a finding."""
    monkeypatch.setenv("KUBECTL", f"sh -c {shlex.quote(script)}")
    with pytest.raises(KubectlError, match="stream lost") as e:
        Kubectl().execute("p", "driver", ["verify"])
    assert e.value.exit_code is ExitCode.CLUSTER


def test_documents_come_one_by_one() -> None:
    """A watch has each in one line, everything else is indented."""
    first = {"type": "ADDED", "object": {"text": "a\n}\nb", "inner": {"x": 1}}}
    second = {"type": "DELETED", "object": {}}
    lines = [f"{json.dumps(first)}\n", *json.dumps(second, indent=4).splitlines(keepends=True), "\n"]
    found = documents(iter([*lines, f"{json.dumps(first)}\n"]))
    assert [next(found), next(found), next(found)] == [first, second, first]
    assert list(found) == []
