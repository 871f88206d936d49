"""The input of a script: small JSON files with event time, the same for the same seed."""

from __future__ import annotations

import json
import random
import threading
from pathlib import Path

from tests.spark.feeds import in_order

from .oracles import Row

ROWS = 20  # of a file
MINUTES = 4  # of event time that a file covers
DISORDER = 2  # minutes that a row may be older than its file
WORDS = ["the", "cat", "sat", "on", "the", "mat", "and", "the", "dog", "ate", "the", "cat", "food"]
FIRST, EVERY = 5.0, 0.7  # seconds until the first file that comes while the script runs, and between two


def files(seed: int, number: int) -> list[list[Row]]:
    """The rows of each file.

    `v` numbers them all; `kind` is a view, or a click on the view `ref` of a few rows before; every `v` % 10
    == 7 comes twice.
    """
    chance = random.Random(seed)
    return [_file(chance, n) for n in range(number)]


def _file(chance: random.Random, number: int) -> list[Row]:
    found: list[Row] = []
    for v in range(number * ROWS, (number + 1) * ROWS):
        seconds = number * MINUTES * 60 + chance.randrange(MINUTES * 60)
        if chance.random() < 0.2:
            seconds -= chance.randrange(DISORDER * 60)
        row: Row = {
            "t": at(max(seconds, 0)),
            "k": f"k{chance.randrange(4)}",
            "v": v,
            "text": " ".join(chance.sample(WORDS, 3)),
            "kind": "click" if v % 3 == 2 else "view",
        }
        if row["kind"] == "click" and chance.random() < 0.7:
            row["ref"] = v - 1 - chance.randrange(2)
        found.append(row)
        if v % 10 == 7:
            found.append(dict(row))
    return found


def at(seconds: int) -> str:
    return f"2026-01-01T{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}Z"


class Feeder:
    """Lays a script's files into its input folder: some at once, the others while it runs.

    :param hold_last: until :meth:`release`. What the watermark has closed, Spark emits with the next batch:
        after a restart it needs new data to have one.
    """

    def __init__(
        self, folder: Path, content: list[list[Row]], before: int, *, hold_last: bool = False
    ) -> None:
        self._folder = folder
        self._left = list(enumerate(content))
        self._held = 1 if hold_last else 0
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        folder.mkdir(parents=True)
        for _ in range(before):
            self._add()

    def begin(self) -> None:
        """The script starts; at its later starts nothing changes."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._go_on, daemon=True)
            self._thread.start()

    def release(self) -> None:
        self._held = 0

    def __enter__(self) -> Feeder:
        return self

    def __exit__(self, *exc: object) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _go_on(self) -> None:
        pause = FIRST
        while self._left and not self._ended.wait(pause):
            pause = EVERY
            if len(self._left) > self._held:
                self._add()

    def _add(self) -> None:
        number, rows = self._left.pop(0)
        hidden = self._folder / f".{number:04}.json"
        hidden.write_text("".join(json.dumps(row) + "\n" for row in rows))
        in_order(hidden, number)
        hidden.rename(self._folder / f"{number:04}.json")
