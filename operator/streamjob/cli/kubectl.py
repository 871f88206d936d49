"""Calls kubectl, with which the user reaches the cluster. No other module starts it.

All ways to log in work, because kubectl does that. `KUBECTL` in the environment names another program, also
one with arguments: `KUBECTL="microk8s kubectl"`.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from .errors import Interrupted
from .kubectl_errors import Conflict, Forbidden, KubectlError, NotFound, Refused, error
from .kubectl_output import Event, Gathered, Obj, Watch, documents, end

__all__ = [
    "JOBS", "Access", "Conflict", "Event", "Forbidden", "Kubectl", "KubectlError", "NotFound", "Obj",
    "Objects", "Refused", "Watch",
]  # fmt: skip

Objects = list[Obj]
JOBS = "streamjobs.streamjob.dev"
REVIEW = "SelfSubjectAccessReview"
UNCHECKED = "--validate=false"  # kubectl would fetch the schema of the whole API first
# kubectl's last word on what it has executed, in the same line if that has not ended its own.
ENDED = re.compile(r"(.*)command terminated with exit code \d+\n?")
# What it says itself. Its log begins a line with E, month and day.
OF_KUBECTL = re.compile(r"error: |Error from server|Unable to connect|The connection to the server|E\d{4} \d")
LOSES = "discarding message"  # a part of the output, with whatever exit code


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
class Kubectl:
    """kubectl with the options that choose cluster, user and namespace.

    :param options: as kubectl takes them, such as `("--context", "prod")`; without the namespace.
    :param namespace: None: that of the context.
    """

    options: tuple[str, ...] = ()
    namespace: str | None = None

    # --- reading --------------------------------------------------------------------------------------------

    def get(self, kind: str, name: str, *options: str) -> Obj:
        """The object.

        :param options: of `kubectl get`.
        :raises NotFound: it does not exist.
        :raises KubectlError: anything else.
        """
        found: Obj = json.loads(self.run("get", kind, name, *options, "-o", "json"))
        return found

    def find(self, kind: str, name: str, *options: str) -> Obj | None:
        """The object, None if it does not exist.

        :param options: as for `get`.
        """
        text = self.run("get", kind, name, "--ignore-not-found", *options, "-o", "json")
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
            UNCHECKED,
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
        :raises Interrupted: by Ctrl-C, before the API server has answered.
        """
        options = ["--dry-run=server"] if dry_run else []
        words = ["patch", kind, name, "--type=merge", "-p", json.dumps(change), *options, "-o", "json"]
        try:
            text = self.run(*words)
        except KeyboardInterrupt:
            if dry_run:
                raise
            raise Interrupted(
                f"interrupted while {name} was being changed: the change may have been made",
                remedy=f"See `{shlex.join(self.command('get', kind, name, '-o', 'yaml'))}`",
            ) from None
        found: Obj = json.loads(text)
        return found

    def create(self, obj: Obj) -> Obj:
        """Make an object.

        :returns: the object as the API server has it.
        """
        text = self.run("create", "-f", "-", "-o", "json", UNCHECKED, stdin=json.dumps(obj))
        made: Obj = json.loads(text)
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

    def execute(self, pod: str, container: str, command: Sequence[str]) -> int:
        """Run a command in a container. What it writes goes to our output.

        :returns: its exit code.
        :raises KubectlError: kubectl cannot run it, or has lost it or its output. Its own exit code is then 1
            or 0.
        """
        words = self.command("exec", pod, "-c", container, "--", *command)
        with _started():
            process = subprocess.Popen(
                words, stderr=subprocess.PIPE, text=True, encoding="utf-8", errors="replace"
            )
        assert process.stderr is not None
        by_itself, ended = [], False
        try:
            for line in process.stderr:
                if OF_KUBECTL.match(line):
                    by_itself.append(line)
                    ended = False
                    continue
                word = ENDED.fullmatch(line)
                ended = word is not None
                sys.stderr.write(word[1] and f"{word[1]}\n" if word else line)
                sys.stderr.flush()
            code = process.wait()
        finally:
            end(process)
        said = "".join(by_itself)
        if (code and not ended) or LOSES in said:
            raise error(said)
        sys.stderr.write(said)
        return code

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
        said = Gathered(process.stderr)
        try:
            for line in process.stdout:
                yield line.rstrip("\n")
            code = process.wait()
        finally:
            end(process)
        if code:
            raise error(said.text())


@contextmanager
def _started() -> Iterator[None]:
    """Says it if kubectl is not there."""
    try:
        yield
    except (FileNotFoundError, PermissionError) as e:
        raise KubectlError(
            f"kubectl cannot be started: {e}", remedy="Install kubectl, or name it in the variable KUBECTL"
        ) from None


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
