"""`python -m streamjob.runtime savepoint`, and the library that it is made of."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from streamjob.protocol.formats.records import FinishedStatus
from streamjob.runtime.savepoints import cli
from streamjob.runtime.savepoints.catalog import delete_savepoint, list_savepoints
from streamjob.runtime.savepoints.describe import describe_savepoint
from streamjob.runtime.savepoints.layout import SavepointIncomplete
from streamjob.storage.hadoop import HadoopFiles
from tests.runtime.queries import STAGE, Query

pytestmark = pytest.mark.any_spark


@pytest.fixture
def query(files: HadoopFiles, tmp_path: Path) -> Query:
    """With the savepoints stop-1 and stop-2, and half of stop-3."""
    made = Query(files, tmp_path)
    made.batch()
    made.save("stop-1")
    made.batch()
    made.save("stop-2")
    made.save("stop-3")
    (made.root / "stop-3" / "manifest.json").unlink()
    return made


def ask(files: HadoopFiles, *words: object) -> int:
    """Without a JVM of its own."""
    return cli.answer(files, [str(w) for w in words])


def test_the_command_in_a_process_of_its_own(query: Query) -> None:
    (query.root / "stop-2" / "stages" / STAGE / "0" / "offsets" / "1").unlink()
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "streamjob.runtime",
            "savepoint",
            "verify",
            str(query.root / "stop-2"),
            "--json",
        ],
        env={**os.environ, "PYTHONPATH": "operator"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert json.loads(done.stdout)["problems"] == [f"stages/{STAGE}/0/offsets/1 is missing"]


def test_an_error_is_one_sentence(
    query: Query, files: HadoopFiles, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.answer(files, ["describe", str(query.root / "stop-3")]) == 2
    out, err = capsys.readouterr()
    assert "has no manifest.json" in err
    assert "Check the path" in err
    assert (out, len(err.splitlines())) == ("", 1)


def test_list(query: Query, files: HadoopFiles, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(files, "list", query.root, "--json") == 1
    listed = json.loads(capsys.readouterr().out)
    assert [s["uri"].rpartition("/")[2] for s in listed] == ["stop-3", "stop-2", "stop-1"]
    assert [s["problem"] for s in listed] == ["incomplete", None, None]
    assert listed[0]["request_id"] == "stop-3"
    assert listed[1]["own"] < listed[1]["size"]
    # Also from the folder of all jobs; and what is no savepoint is not in the list.
    (query.home / "savepoints" / "lost+found").mkdir()
    assert len(list_savepoints(files, f"file:{query.home}")) == 3
    assert ask(files, "list", query.root) == 1
    out = capsys.readouterr().out
    assert [line.split()[0] for line in out.splitlines()] == ["SAVEPOINT", "stop-3", "stop-2", "stop-1"]
    fits(out)


def fits(out: str) -> None:
    assert max(map(len, out.splitlines())) <= 80


def test_describe(query: Query, files: HadoopFiles, capsys: pytest.CaptureFixture[str]) -> None:
    found = describe_savepoint(files, query.uri("stop-2"))
    assert (found.request_id, found.scenario, found.drained, found.version) == ("stop-2", "Stop", False, 2)
    (stage,) = found.stages
    (task,) = stage.tasks
    assert (stage.uid, stage.status) == (STAGE, FinishedStatus.NOT)
    assert (task.batch, task.watermark, task.sources) == (1, 60_000, {"0": '{"orders": {"0": 100}}'})
    assert task.state_size["0"] > 4000
    assert ask(files, "describe", query.root / "stop-2") == 0
    out = capsys.readouterr().out
    for fact in (
        "shop/orders",
        "Stop",
        "stateStoreSave",
        '{"orders": {"0": 100}}',
        "1970-01-01 00:01:00 UTC",
        "batch 1",
    ):
        assert fact in out
    assert query.home.name not in out.partition("\n")[2]
    fits(out.partition("\n")[2])


def test_a_broken_file_is_named(query: Query, files: HadoopFiles, capsys: pytest.CaptureFixture[str]) -> None:
    (query.root / "stop-2" / "stages" / STAGE / "0" / "offsets" / "1").write_text("v1")
    assert ask(files, "verify", query.root / "stop-2") == 1
    assert capsys.readouterr().out == f"stages/{STAGE}/0/offsets/1 is not what was written\n"
    assert ask(files, "describe", query.root / "stop-2") == 0
    assert "see verify" in capsys.readouterr().out


def test_export_and_delete(query: Query, files: HadoopFiles, capsys: pytest.CaptureFixture[str]) -> None:
    copy = query.home / "elsewhere" / "copy"
    assert ask(files, "export", query.root / "stop-2", copy) == 0
    assert ask(files, "delete", query.root / "stop-2") == 0
    assert "stop-3 is not complete" in " ".join(capsys.readouterr().out.split())
    for name in ("stop-3", "stop-1", "stop-1"):  # the second time it is gone already
        assert ask(files, "delete", query.root / name) == 0
    assert "was not there any more" in capsys.readouterr().out
    assert query.shared() == set()
    assert ask(files, "verify", copy) == 0
    assert ask(files, "list", copy.parent) == 0
    assert describe_savepoint(files, f"file:{copy}").shared == 0


def test_adopt(query: Query, files: HadoopFiles, capsys: pytest.CaptureFixture[str]) -> None:
    """What it makes is a savepoint like any other; the directory is only read."""
    target, before = query.root / "adopted", tree(query.folder)
    for _ in range(2):  # may be repeated
        assert ask(files, "adopt", target, f"{STAGE}={query.folder}") == 0
        assert f'restoreFrom: {{savepoint: "file:{target}"}}' in capsys.readouterr().out
    assert tree(query.folder) == before
    assert ask(files, "verify", target) == 0
    found = describe_savepoint(files, f"file:{target}")
    assert (found.why, found.by_whom, found.scenario) == ("Adoption", "the command savepoint adopt", None)
    assert [t.batch for s in found.stages for t in s.tasks] == [1]
    assert ask(files, "describe", target) == 0
    out = capsys.readouterr().out
    assert "none, it was adopted" in out
    fits(out.partition("\n")[2].partition("\n")[2])
    query.batch()  # now it is another one
    assert ask(files, "adopt", target, f"{STAGE}={query.folder}") == 2
    assert ask(files, "adopt", query.root / "stop-1", f"{STAGE}={query.folder}") == 2
    assert "holds another savepoint" in capsys.readouterr().err
    assert describe_savepoint(files, query.uri("stop-1")).request_id == "stop-1"


def test_adopt_refuses_what_is_no_whole_checkpoint(
    query: Query, files: HadoopFiles, capsys: pytest.CaptureFixture[str]
) -> None:
    target = query.root / "adopted"
    query.write("offsets/2", (query.folder / "offsets" / "1").read_text())
    assert ask(files, "adopt", target, f"{STAGE}={query.folder}") == 2
    said = capsys.readouterr().err
    assert "has batch 2 uncommitted" in said
    assert "restoreFrom.checkpoints" in said
    assert ask(files, "adopt", target, f"{STAGE}={query.root}") == 2
    assert "no file 'metadata'" in capsys.readouterr().err
    assert not target.exists()


def tree(folder: Path) -> dict[str, bytes]:
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


def test_only_savepoints_are_deleted(query: Query, files: HadoopFiles) -> None:
    assert ask(files, "delete", query.folder) == 2
    with pytest.raises(SavepointIncomplete):
        delete_savepoint(files, f"file:{query.root}")
    assert (query.folder / "metadata").exists()
    assert (query.root / "stop-2" / "manifest.json").exists()


@pytest.mark.parametrize(
    "words",
    [[], ["list"], ["describe", "a", "--conf", "x=1"], ["adopt", "a"], ["adopt", "a", "b"], ["erase", "a"]],
)
def test_what_is_no_command(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as e:
        cli.parser().parse_args(words)
    assert e.value.code == 2
    assert "usage:" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--help"], ["export", "--help"]])
def test_help(words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        cli.parser().parse_args(words)
    out = capsys.readouterr().out
    for word in ("list", "describe", "verify", "export", "delete", "adopt", "examples:", "exit codes:"):
        assert word in out
    fits(out)
