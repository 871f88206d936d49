"""What counts as changed in a checkout, and what is drawn of the rest."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from . import gate

Git = Callable[..., str]


@pytest.fixture
def git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Git:
    """A checkout with two commits on main: the second one has changed `rules/decide.py`."""
    for name in ("STREAMJOB_BASE", "STREAMJOB_SEED"):
        monkeypatch.delenv(name, raising=False)

    def git(*words: str) -> str:
        who = ("-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false")
        command = ["git", "-C", str(tmp_path), *who, *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    git("init", "-q", "-b", "main")
    (tmp_path / "rules").mkdir()
    for text in ("first", "second"):
        (tmp_path / "rules/decide.py").write_text(text)
        (tmp_path / "README.md").write_text("as it was")
        git("add", ".")
        git("commit", "-q", "-m", text)
    return git


def test_on_main_what_the_last_commit_has_changed(git: Git, tmp_path: Path) -> None:
    assert gate.changed("rules", root=tmp_path)
    assert gate.changed("rules/decide.py", root=tmp_path)
    assert not gate.changed("README.md", "rule", root=tmp_path)
    assert gate.before("rules/decide.py", root=tmp_path) == "first"


def test_on_a_branch_what_it_has_changed_since_it_left_main(git: Git, tmp_path: Path) -> None:
    git("checkout", "-q", "-b", "feature")
    (tmp_path / "README.md").write_text("shorter")
    git("commit", "-q", "-a", "-m", "third")
    git("commit", "-q", "--allow-empty", "-m", "fourth")
    assert gate.changed("README.md", root=tmp_path)
    assert not gate.changed("rules", root=tmp_path)
    assert gate.before("rules/decide.py", root=tmp_path) == "second"


def test_what_is_not_committed_counts_too(git: Git, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("edited")
    (tmp_path / "new.py").write_text("")
    assert gate.changed("README.md", root=tmp_path)
    assert gate.changed("new.py", root=tmp_path)
    assert gate.before("new.py", root=tmp_path) is None


def test_without_git_nothing_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STREAMJOB_SEED", raising=False)
    (tmp_path / "README.md").write_text("of an archive")
    assert not gate.changed("README.md", root=tmp_path)
    assert gate.before("README.md", root=tmp_path) is None
    assert gate.seed(tmp_path) == 0


def test_a_first_commit_has_nothing_before_it(git: Git, tmp_path: Path) -> None:
    git("checkout", "-q", "--orphan", "main2")
    git("branch", "-q", "-D", "main")
    git("commit", "-q", "-m", "only")
    git("branch", "-q", "-m", "main")
    assert not gate.changed("rules", root=tmp_path)


def test_a_commit_always_draws_the_same(git: Git, tmp_path: Path) -> None:
    drawn = gate.seed(tmp_path)
    assert f"{drawn:07x}" == git("rev-parse", "HEAD")[:7]
    assert gate.one_in(20, range(41)) == gate.one_in(20, range(41))
    assert len(gate.one_in(20, range(41))) == 3
    assert gate.one_in(1, "abc") == ["a", "b", "c"]
    assert gate.one_in(20, []) == []
