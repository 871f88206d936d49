"""What kubectl writes while it runs: the changes of a watch, and what it says when it ends."""

from __future__ import annotations

import json
import queue
import subprocess
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import IO, Any

from .kubectl_errors import error

Obj = dict[str, Any]


@dataclass(frozen=True)
class Event:
    """A change that a watch reports.

    :param kind: ADDED, MODIFIED or DELETED. Every object that exists at the beginning is ADDED.
    """

    kind: str
    object: Obj


class Watch:
    """The changes of objects, as kubectl reports them. To be used in a `with` statement.

    kubectl ends a watch now and then, as the API server does. Then the objects are all reported again by the
    next one.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._events: queue.Queue[Event | None] = queue.Queue()
        self._said = Gathered(process.stderr)
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
        end(self._process)

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
    """The JSON objects of kubectl's output.

    A watch has each in one line. Everything else is indented, and a line that has only a brace ends it.
    """
    text: list[str] = []
    for line in lines:
        if not text and not line.strip():
            continue
        text.append(line)
        whole = len(text) == 1 and line.startswith("{") and line.rstrip("\r\n") != "{"
        if whole or line.rstrip("\r\n") == "}":
            yield json.loads("".join(text))
            text = []


class Gathered:
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


def end(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
