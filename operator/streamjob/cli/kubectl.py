"""Calls kubectl, with which the user reaches the cluster. No other module starts it.

All ways to log in work, because kubectl does that. `KUBECTL` in the environment names another program, also
one with arguments: `KUBECTL="microk8s kubectl"`.
"""

from __future__ import annotations

import json
import os
import queue
import shlex
import subprocess
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import IO, Any

from .errors import CommandError, ExitCode

Obj = dict[str, Any]
Objects = list[Obj]
JOBS = "streamjobs.streamjob.dev"
REVIEW = "SelfSubjectAccessReview"


class KubectlError(CommandError):
    """kubectl has failed. The message is kubectl's own."""

    reason = "KubectlFailed"
    exit_code = ExitCode.CLUSTER


class NotFound(KubectlError):
    """The object does not exist."""

    reason = "NotFound"


class Forbidden(KubectlError):
    """The user lacks a permission."""

    reason = "Forbidden"


class Refused(KubectlError):
    """The API server does not accept the object: a rule of the resource, or a webhook."""

    reason = "Invalid"


class Conflict(KubectlError):
    """Somebody else has changed the object first."""

    reason = "Conflict"


@dataclass(frozen=True)
class Access:
    """A question about permissions: may the user do this?

    :param subresource: `log`, `exec`, `status`; empty for the object itself.
    """

    verb: str
    resource: str
    group: str = ""
    subresource: str = ""
    name: str = ""


@dataclass(frozen=True)
class Event:
    """A change that a watch reports.

    :param kind: ADDED, MODIFIED or DELETED. Every object that exists at the beginning is ADDED.
    """

    kind: str
    object: Obj


@dataclass(frozen=True)
class Kubectl:
    """kubectl with the options that choose cluster, user and namespace.

    :param options: as kubectl takes them, such as `("--context", "prod")`; without the namespace.
    :param namespace: None: that of the context.
    """

    options: tuple[str, ...] = ()
    namespace: str | None = None

    # --- reading --------------------------------------------------------------------------------------------

    def get(self, kind: str, name: str) -> Obj:
        """The object.

        :raises NotFound: it does not exist.
        :raises KubectlError: anything else.
        """
        found: Obj = json.loads(self.run("get", kind, name, "-o", "json"))
        return found

    def find(self, kind: str, name: str) -> Obj | None:
        """The object, None if it does not exist."""
        text = self.run("get", kind, name, "--ignore-not-found", "-o", "json")
        found: Obj | None = json.loads(text) if text.strip() else None
        return found

    def list(
        self, kind: str, *, selector: str = "", fields: str = "", all_namespaces: bool = False
    ) -> Objects:
        """The objects of a kind.

        :param selector: of labels.
        :param fields: a selector of fields.
        """
        text = self.run("get", kind, *_chosen(selector, fields, all_namespaces), "-o", "json")
        found: Objects = json.loads(text)["items"]
        return found

    def watch(
        self,
        kind: str,
        name: str = "",
        *,
        selector: str = "",
        fields: str = "",
        all_namespaces: bool = False,
    ) -> Watch:
        """A watch, which begins with the objects that exist."""
        named = [name] if name else []
        chosen = _chosen(selector, fields, all_namespaces)
        return Watch(
            self.start("get", kind, *named, *chosen, "--watch", "--output-watch-events", "-o", "json")
        )

    def logs(
        self,
        pod: str,
        container: str,
        *,
        follow: bool = False,
        tail: int | None = None,
        since: str | None = None,
        previous: bool = False,
    ) -> Iterator[str]:
        """The lines of a container's log, as they come.

        :raises KubectlError: when kubectl has ended with an error, after the lines that there were.
        """
        options = [
            *(["--follow"] if follow else []),
            *([f"--tail={tail}"] if tail is not None else []),
            *([f"--since={since}"] if since else []),
            *(["--previous"] if previous else []),
        ]
        yield from self.stream("logs", pod, "-c", container, *options)

    def may(self, *questions: Access) -> tuple[bool, ...]:
        """Which of these the user may do, as the API server says. One call, whatever their number."""
        if not questions:
            return ()
        namespace = self.namespace or self.current_namespace()
        items = [_review(question, namespace) for question in questions]
        text = self.run(
            "create",
            "-f",
            "-",
            "-o",
            "json",
            "--validate=false",  # it would fetch the schema of the whole API first
            stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}),
        )
        found = [
            answer
            for document in documents(text.splitlines(keepends=True))
            for answer in (document["items"] if document["kind"] == "List" else [document])
        ]
        return tuple(bool(answer.get("status", {}).get("allowed")) for answer in found)

    def current_namespace(self) -> str:
        """The namespace of the commands."""
        if self.namespace:
            return self.namespace
        chosen = "jsonpath={..namespace}"
        return self.run("config", "view", "--minify", "-o", chosen).strip() or "default"

    # --- changing -------------------------------------------------------------------------------------------

    def patch(self, kind: str, name: str, change: Obj, *, dry_run: bool = False) -> Obj:
        """Merge `change` into the object.

        :param dry_run: the API server only checks it.
        :returns: the object as it is then.
        :raises Refused: a rule of the resource does not allow it.
        """
        options = ["--dry-run=server"] if dry_run else []
        text = self.run("patch", kind, name, "--type=merge", "-p", json.dumps(change), *options, "-o", "json")
        found: Obj = json.loads(text)
        return found

    def create(self, obj: Obj) -> Obj:
        """Make an object.

        :returns: the object as the API server has it.
        """
        made: Obj = json.loads(self.run("create", "-f", "-", "-o", "json", stdin=json.dumps(obj)))
        return made

    def delete(self, kind: str, name: str, *options: str) -> None:
        """Delete an object. It may be gone already."""
        self.run("delete", kind, name, "--ignore-not-found", *options)

    # --- kubectl itself -------------------------------------------------------------------------------------

    def command(self, *words: str) -> Sequence[str]:
        """The command line."""
        program = shlex.split(os.environ.get("KUBECTL", "")) or ["kubectl"]
        namespace = ["--namespace", self.namespace] if self.namespace else []
        return [*program, *self.options, *namespace, *words]

    def run(self, *words: str, stdin: str | None = None) -> str:
        """Run a command.

        :returns: its standard output.
        :raises KubectlError: it has failed.
        """
        with _started():
            done = subprocess.run(
                self.command(*words),
                input=stdin,
                capture_output=True,
                text=True,
                encoding="utf-8",
                check=False,
            )
        if done.returncode:
            raise error(done.stderr.strip() or done.stdout.strip())
        return done.stdout

    def call(self, *words: str) -> int:
        """Run a command that has our terminal.

        :returns: its exit code.
        """
        with _started():
            return subprocess.run(self.command(*words), check=False).returncode

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start a command whose output is read while it runs."""
        with _started():
            return subprocess.Popen(
                self.command(*words),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                errors="replace",
            )

    def stream(self, *words: str) -> Iterator[str]:
        """The lines of a command's output, without their ends, as they come.

        :raises KubectlError: the command has failed, after the lines that there were.
        """
        process = self.start(*words)
        assert process.stdout is not None
        said = _Gathered(process.stderr)
        try:
            for line in process.stdout:
                yield line.rstrip("\n")
            code = process.wait()
        finally:
            _end(process)
        if code:
            raise error(said.text())


class Watch:
    """The changes of objects, as kubectl reports them. To be used in a `with` statement.

    kubectl ends a watch now and then, as the API server does. Then the objects are all reported again by the
    next one.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._events: queue.Queue[Event | None] = queue.Queue()
        self._said = _Gathered(process.stderr)
        assert process.stdout is not None
        threading.Thread(target=self._read, args=(process.stdout,), daemon=True).start()

    def next(self, timeout: float | None = None) -> Event | None:
        """The next change; None if there is none within so many seconds.

        :raises EOFError: the watch has ended.
        :raises KubectlError: kubectl has failed.
        """
        try:
            event = self._events.get(timeout=timeout)
        except queue.Empty:
            return None
        if event is not None:
            return event
        self._events.put(None)  # for the next call
        if self._process.wait() not in (0, None) and self._said.text():
            raise error(self._said.text())
        raise EOFError

    def close(self) -> None:
        """End it. May be called from any thread."""
        _end(self._process)

    def __enter__(self) -> Watch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[Event]:
        """Each change, until the watch ends."""
        with suppress(EOFError):
            while event := self.next():
                yield event

    def _read(self, stream: IO[str]) -> None:
        with suppress(ValueError):  # closed while it is read
            for document in documents(stream):
                self._events.put(Event(document["type"], document["object"]))
        self._events.put(None)


def documents(lines: Iterable[str]) -> Iterator[Obj]:
    """The JSON objects of kubectl's output. A line that has only a brace ends each of them."""
    text: list[str] = []
    for line in lines:
        text.append(line)
        if line.rstrip("\r\n") == "}":
            yield json.loads("".join(text))
            text = []


def error(text: str) -> KubectlError:
    """The error that kubectl's words mean, with a remedy."""
    lowered = text.lower()
    for words, kind, remedy in _KNOWN:
        if any(word in lowered for word in words):
            return kind(text, remedy=remedy)
    return KubectlError(text or "kubectl has failed and does not say why")


# Most particular first: what kubectl says, in lower case.
_KNOWN: Sequence[tuple[tuple[str, ...], type[KubectlError], str]] = (
    (
        ('resource type "streamjobs', "could not find the requested resource"),
        KubectlError,
        "This cluster does not know StreamJobs: install the operator's chart, or choose another --context",
    ),
    (("(forbidden)",), Forbidden, "Ask for this permission, or choose another user: --context, --as"),
    (
        ("(notfound)",),
        NotFound,
        "See `kubectl streamjob status -A` for all jobs that there are, and choose with -n and --context",
    ),
    (("(conflict)",), Conflict, "Do it again"),
    (("is invalid", "(invalid)", "admission webhook", "denied the request"), Refused, ""),
    (
        ("(unauthorized)", "must be logged in", "provide credentials", "getting credentials"),
        KubectlError,
        "Log in to the cluster as you do for kubectl",
    ),
    (
        (
            "connection to the server",
            "connection refused",
            "no such host",
            "i/o timeout",
            "unable to connect",
        ),
        KubectlError,
        "See whether `kubectl version` reaches the cluster; choose one with --context or KUBECONFIG",
    ),
    (
        (
            "does not exist",
            "no context exists",
            "no configuration has been provided",
            "invalid configuration",
        ),
        KubectlError,
        "See `kubectl config get-contexts`; choose one with --context, or a file with --kubeconfig",
    ),
)


@contextmanager
def _started() -> Iterator[None]:
    """Says it if kubectl is not there."""
    try:
        yield
    except (FileNotFoundError, PermissionError) as e:
        raise KubectlError(
            f"kubectl cannot be started: {e}", remedy="Install kubectl, or name it in the variable KUBECTL"
        ) from None


class _Gathered:
    """What a process writes to a pipe, read beside, so that it never waits for us."""

    def __init__(self, stream: IO[str] | None) -> None:
        self._lines: list[str] = []
        self._thread = threading.Thread(target=self._read, args=(stream,), daemon=True)
        self._thread.start()

    def text(self) -> str:
        self._thread.join(timeout=5)
        return "".join(self._lines).strip()

    def _read(self, stream: IO[str] | None) -> None:
        with suppress(ValueError):
            self._lines.extend(stream or ())


def _end(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _chosen(selector: str, fields: str, all_namespaces: bool) -> list[str]:
    return [
        *(["--selector", selector] if selector else []),
        *(["--field-selector", fields] if fields else []),
        *(["--all-namespaces"] if all_namespaces else []),
    ]


def _review(question: Access, namespace: str) -> Obj:
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": REVIEW,
        "spec": {
            "resourceAttributes": {
                "namespace": namespace,
                "verb": question.verb,
                "group": question.group,
                "resource": question.resource,
                "subresource": question.subresource,
                "name": question.name,
            }
        },
    }
