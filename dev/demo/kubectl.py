"""kubectl, with a time limit on every call."""

import json
import os
import queue
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

from dev.demo.waiting import PATIENCE, Failure

Object = dict[str, Any]
# Of a command that waits: when kubectl gives up, and when we do.
LIMIT = f"--timeout={PATIENCE:.0f}s"
LATER = PATIENCE + 30
WATCH_SECONDS = 30


@dataclass(frozen=True)
class Kubectl:
    """One namespace of one cluster. With `kubeconfig` None, kubectl uses the user's own configuration."""

    program: str
    namespace: str
    kubeconfig: str | None = None
    context: str | None = None

    def command(self, *words: str) -> list[str]:
        options = ["--context", self.context] if self.context else []
        return [self.program, *options, "--namespace", self.namespace, *words]

    def environment(self) -> dict[str, str]:
        return {**os.environ, **({"KUBECONFIG": self.kubeconfig} if self.kubeconfig else {})}

    def run(self, *words: str, stdin: str | None = None, timeout: float = 300, check: bool = True) -> str:
        """Run a command and return its standard output.

        :param check: raise `Failure` if the command fails. Otherwise return its output all the same.
        :raises Failure: also if kubectl is missing or does not answer in time.
        """
        try:
            done = subprocess.run(
                self.command(*words),
                input=stdin,
                capture_output=True,
                text=True,
                timeout=timeout,
                env=self.environment(),
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise Failure(f"`kubectl {' '.join(words[:4])}` did not answer within {timeout:.0f} s") from None
        except FileNotFoundError:
            raise Failure(f"there is no {self.program} on this machine", "Install kubectl") from None
        if check and done.returncode:
            raise Failure(f"`kubectl {' '.join(words[:4])}`: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def get(self, kind: str, name: str) -> Object | None:
        """The object, or None if it does not exist."""
        text = self.run("get", kind, name, "--ignore-not-found", "-o", "json")
        return json.loads(text) if text.strip() else None

    def list(self, kind: str, selector: str = "") -> list[Object]:
        chosen = ["--selector", selector] if selector else []
        found: list[Object] = json.loads(self.run("get", kind, *chosen, "-o", "json"))["items"]
        return found

    def apply(self, *objects: Object) -> None:
        self.run("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))

    def patch(self, kind: str, name: str, change: Object) -> None:
        self.run("patch", kind, name, "--type", "merge", "--patch", json.dumps(change))

    def watch(self, kind: str, name: str, timeout: float) -> Iterator[Object]:
        """Yield each state of the object from now on, until the caller stops or the time is over.

        The watch begins anew now and then, which yields the current state once more: an API server has held
        back the last change of an object until the next one.
        """
        deadline = time.monotonic() + timeout
        while (left := deadline - time.monotonic()) > 0:
            limit = f"--request-timeout={min(left, WATCH_SECONDS):.0f}s"
            process = subprocess.Popen(
                self.command("get", kind, name, "--watch", "-o", "json", limit),
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env=self.environment(),
            )
            assert process.stdout is not None
            documents: queue.Queue[Object | None] = queue.Queue()
            threading.Thread(target=_read, args=(process.stdout, documents), daemon=True).start()
            try:
                while document := _next(documents, deadline - time.monotonic()):
                    yield document
            finally:
                process.kill()
                process.wait()


def _read(stream: IO[str], documents: "queue.Queue[Object | None]") -> None:
    """Split the stream into JSON documents. kubectl ends each of them with a line that has only a brace."""
    lines: list[str] = []
    for line in stream:
        lines.append(line)
        if line == "}\n":
            documents.put(json.loads("".join(lines)))
            lines = []
    documents.put(None)


def _next(documents: "queue.Queue[Object | None]", timeout: float) -> Object | None:
    try:
        return documents.get(timeout=max(timeout, 0))
    except queue.Empty:
        return None
