"""What is importable, in which order, and what is refused. None of it needs a JVM."""

from __future__ import annotations

import os
import sys
import zipfile
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from streamjob.jvm import standalone
from streamjob.protocol.messages.driver_config import Application, Deps
from streamjob.runtime.spark.dependencies.errors import DependencyInvalid
from streamjob.runtime.spark.dependencies.prepare import Fetcher, prepare
from streamjob.storage.fetch import _refused


@pytest.fixture(autouse=True)
def interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", ["/entry", "/site"])
    monkeypatch.setenv("PYTHONPATH", "/before")


@pytest.fixture
def fetcher(tmp_path: Path) -> Fetcher:
    (tmp_path / "fetched").mkdir()
    jvm: Any = None
    return Fetcher(jvm, tmp_path / "fetched")


def archive(path: Path) -> str:
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("inside.py", "X = 1")
    return str(path)


@pytest.mark.parametrize(
    ("file", "path"),
    [
        ("/app/a.py", "/app/a.py"),
        ("a.py", "a.py"),
        ("local:///app/a.py", "/app/a.py"),
        ("file:/app/a%20b.py", "/app/a b.py"),
        ("/odd:/a%20b.py", "/odd:/a%20b.py"),
        (None, None),
    ],
)
def test_a_script_of_the_image_starts_no_jvm(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, file: str | None, path: str | None
) -> None:
    """The script may still set it up."""
    monkeypatch.setattr(standalone, "of_driver", lambda: pytest.fail("a JVM is started"))
    module = None if file else "app"
    assert prepare(Application(file=file, module=module), Deps(), tmp_path) == path


def test_modules_come_after_the_entry_of_the_script_and_before_all_others(
    fetcher: Fetcher, tmp_path: Path
) -> None:
    (tmp_path / "one.py").write_text("")
    wheel = archive(tmp_path / "w-1-py3-none-any.whl")
    fetcher.python((str(tmp_path / "one.py"), f"local://{wheel}", archive(tmp_path / "two.zip")))
    here = tmp_path / "fetched" / "python"
    mine = [str(here), f"{here}/w-1-py3-none-any.whl.zip", f"{here}/two.zip"]
    assert sys.path == ["/entry", *mine, "/site"]
    assert os.environ["PYTHONPATH"].split(os.pathsep) == [*mine, "/before"]
    assert all(Path(entry).exists() for entry in mine)


def test_without_modules_the_path_stays(fetcher: Fetcher) -> None:
    fetcher.python(())
    assert sys.path == ["/entry", "/site"]
    assert os.environ["PYTHONPATH"] == "/before"


def test_a_page_in_place_of_an_archive_is_refused(fetcher: Fetcher, tmp_path: Path) -> None:
    (tmp_path / "page.zip").write_text("<html>Please log in</html>")
    with pytest.raises(DependencyInvalid, match=r"^spec\.deps\.pyFiles: .*page\.zip is not a zip archive"):
        fetcher.python((f"file://{tmp_path}/page.zip",))
    with pytest.raises(DependencyInvalid, match=r"^spec\.deps\.jars: .*page\.zip is not a zip archive"):
        fetcher.jars(Deps(jars=(f"{tmp_path}/page.zip",)))


def test_two_files_of_one_name_are_refused(fetcher: Fetcher, tmp_path: Path) -> None:
    """Executors have all of them in one folder."""
    (tmp_path / "other").mkdir()
    for folder in (tmp_path, tmp_path / "other"):
        (folder / "x.py").write_text("")
    fetcher.python((f"{tmp_path}/x.py",))
    with pytest.raises(DependencyInvalid, match=r"^spec\.deps\.files: .*other/x\.py and .*same name"):
        fetcher.files((f"{tmp_path}/other/x.py",))


def test_a_file_that_is_not_there_is_refused_by_its_field(fetcher: Fetcher, tmp_path: Path) -> None:
    missing = (f"local://{tmp_path}/none.zip",)
    with pytest.raises(DependencyInvalid, match=r"^spec\.deps\.jars: .*none\.zip: there is no such file"):
        fetcher.jars(Deps(jars=missing))
    with pytest.raises(DependencyInvalid, match=r"^spec\.deps\.pyFiles: .*there is no such file"):
        fetcher.python(missing)
    with pytest.raises(DependencyInvalid, match=r"^spec\.deps\.files: .*there is no such file"):
        fetcher.files(missing)
    with pytest.raises(DependencyInvalid, match="it is a folder"):
        fetcher.files((str(tmp_path),))


@pytest.mark.parametrize("uri", ["https://host", "https://host/..", "s3a://bucket/%2E%2E"])
def test_a_location_without_a_file_is_refused(fetcher: Fetcher, uri: str) -> None:
    with pytest.raises(DependencyInvalid, match=r"^spec\.deps\.files: .*it names no file"):
        fetcher.files((uri,))


@pytest.mark.parametrize("name", ["a,b.txt", "a#b.txt", "a\nb.txt"])
def test_a_name_that_spark_reads_as_something_else_is_refused(
    fetcher: Fetcher, tmp_path: Path, name: str
) -> None:
    (tmp_path / name).write_text("")
    with pytest.raises(DependencyInvalid, match=r"^spec\.deps\.files: the name of .* has the character"):
        fetcher.files((f"file://{tmp_path}/{quote(name)}",))


def test_the_query_of_a_signed_location_is_not_told() -> None:
    error = _refused("http://host/a", 302, "https://store/a?X-Amz-Signature=secret")
    assert "https://store/a" in error.message
    assert "secret" not in error.message
