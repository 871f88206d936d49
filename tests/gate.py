"""What the gate runs of tests that show much the same: those of what has changed, and a few of the others.

The rest is marked `slow`, so that `make test-all` runs it. What has changed, git says, against where this
branch left main; on main against the commit before. STREAMJOB_BASE names another commit. The few are drawn by
the commit, so that the same commit always draws the same and the next one others; STREAMJOB_SEED=… draws them
again. Without git nothing counts as changed, and the draw is always the same.
"""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Collection, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
MAIN = ("origin/HEAD", "origin/main", "main")


def git(*words: str, root: Path = ROOT) -> str | None:
    """What git says; None if there is no git, `root` is no checkout, or what is asked for is not there."""
    try:
        done = subprocess.run(["git", "-C", root, *words], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout if done.returncode == 0 and (root / ".git").exists() else None


@cache
def base(root: Path = ROOT) -> str | None:
    """The commit against which something has changed."""
    if chosen := os.environ.get("STREAMJOB_BASE"):
        return chosen
    head = git("rev-parse", "HEAD", root=root)
    for main in MAIN:
        if fork := git("merge-base", "HEAD", main, root=root):
            return fork.strip() if fork != head else (git("rev-parse", "HEAD~1", root=root) or "").strip()
    return None


@cache
def seed(root: Path = ROOT) -> int:
    """Of what is drawn for this commit."""
    return int(os.environ.get("STREAMJOB_SEED") or int((git("rev-parse", "HEAD", root=root) or "0")[:7], 16))


@cache
def _changes(root: Path) -> frozenset[str]:
    since = git("diff", "--name-only", "--no-renames", base(root) or "HEAD", root=root)
    new = git("ls-files", "--others", "--exclude-standard", root=root)
    return frozenset([*(since or "").splitlines(), *(new or "").splitlines()])


def changed(*paths: str, root: Path = ROOT) -> bool:
    """Whether one of these files, or a file in one of these folders, has changed or is new."""
    return any(file == p or file.startswith(f"{p}/") for file in _changes(root) for p in paths)


def before(path: str, root: Path = ROOT) -> str | None:
    """The text of a file before the change; None if it was not there, or there is no git."""
    return git("show", f"{base(root) or 'HEAD'}:{path}", root=root)


def one_in(few: int, of: Sequence[Any]) -> list[Any]:
    """One in so many of them, and at least one, in their order."""
    drawn = random.Random(seed()).sample(range(len(of)), -(-len(of) // few))
    return [of[n] for n in sorted(drawn)]


def slow_but(kept: Collection[Any], of: Iterable[Any]) -> list[Any]:
    """For `parametrize`: those that are not kept are `slow`."""
    return [case if case in kept else pytest.param(case, marks=pytest.mark.slow) for case in of]


def said() -> str:
    """For the head of a run."""
    return (
        f"gate: what has changed since {(base() or 'no commit')[:12]}, and a draw (STREAMJOB_SEED={seed()})"
    )


def mark(item: pytest.Item) -> None:
    """A test `only_if_changed` is `slow` while its folders are as before, unless it is the `smoke` test."""
    kind = item.get_closest_marker("only_if_changed")
    if kind and not changed(*kind.args) and not item.get_closest_marker("smoke"):
        item.add_marker(pytest.mark.slow)
