"""The launcher, run by a real shell in folders laid out like images."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from streamjob.controller.objects import runtime_files
from streamjob.protocol.formats import codec
from streamjob.protocol.messages.driver_status import Problem

SAYS = """
import os, sys
path = [p for p in sys.path if "image" in p or "mounted" in p]
print({name: os.environ.get(name) for name in ("PYTHONPATH", "SPARK_HOME", "HOME")}, path)
"""


class Image:
    """An image's files: programs in `bin`, Spark in `spark`, and what the operator mounts."""

    def __init__(self, home: Path) -> None:
        self.home, self.bin = home / "image", home / "image" / "bin"
        self.mounted, self.message = home / "mounted", home / "termination-log"
        self.work = home / "work"
        self.work.mkdir()
        self.bin.mkdir(parents=True)
        self.mounted.mkdir()
        for program in ("dirname", "id", "tr", "echo", "grep", "getent", "mktemp", "sh"):
            (self.bin / program).symlink_to(shutil.which(program) or "/bin/false")
        (self.mounted / runtime_files.LAUNCHER).write_text(runtime_files.launcher())
        package = self.mounted / "streamjob.zip" / "streamjob" / "runtime"
        package.mkdir(parents=True)
        (package.parent / "__init__.py").touch()
        (package / "__init__.py").touch()
        (package / "__main__.py").write_text(SAYS)

    def python(self, name: str = "python3", *, pyspark: bool = True) -> Path:
        """A Python without packages, or with an empty pyspark."""
        code = f'exec {sys.executable} -S "$@"\n'
        if pyspark:
            place = self.home / "site"
            for package in ("pyspark", "py4j"):
                (place / package).mkdir(parents=True, exist_ok=True)
                (place / package / "__init__.py").touch()
            code = f'PYTHONPATH="$PYTHONPATH:{place}" {code}'
        return self.program(name, code)

    def program(self, name: str, code: str) -> Path:
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{code}")
        path.chmod(0o755)
        return path

    def spark(self) -> Path:
        home = self.home / "spark"
        (home / "python" / "pyspark").mkdir(parents=True)
        (home / "python" / "pyspark" / "__init__.py").touch()
        (home / "python" / "lib").mkdir()
        (home / "python" / "lib" / "py4j-0.10.9.9-src.zip").touch()
        return home

    def start(self, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["/bin/sh", str(self.mounted / runtime_files.LAUNCHER)],
            env={"PATH": str(self.bin), "STREAMJOB_TERMINATION_LOG": str(self.message), **env},
            cwd=self.work,
            capture_output=True,
            text=True,
            check=False,
        )

    def refusal(self, **env: str) -> Problem:
        done = self.start(**env)
        assert done.returncode == 2, done
        return codec.loads(Problem, self.message.read_text())


@pytest.fixture
def image(tmp_path: Path) -> Image:
    return Image(tmp_path)


def test_the_runtime_is_found_before_what_the_image_has(image: Image) -> None:
    image.python()
    done = image.start(PYTHONPATH="/app")
    assert done.returncode == 0, done.stderr
    assert f"'PYTHONPATH': '{image.mounted}/streamjob.zip:/app" in done.stdout
    assert "'SPARK_HOME': None" in done.stdout, "an installed pyspark knows its Spark"


def test_pyspark_of_a_spark_home_comes_with_its_py4j(image: Image) -> None:
    image.python(pyspark=False)
    home = image.spark()
    done = image.start(SPARK_HOME=str(home))
    assert done.returncode == 0, done.stderr
    expected = f"{image.mounted}/streamjob.zip:{home}/python:{home}/python/lib/py4j-0.10.9.9-src.zip"
    assert f"'PYTHONPATH': '{expected}'" in done.stdout


@pytest.mark.parametrize("variable", ["PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON"])
def test_the_python_that_the_image_names_is_taken(image: Image, variable: str) -> None:
    image.program("python3", "exit 9\n")
    own = image.python("own")
    assert image.start(**{variable: str(own)}).returncode == 0


def test_a_program_that_is_no_plain_python_is_passed_over(image: Image) -> None:
    """Notebook images name jupyter for the driver."""
    jupyter = image.program("jupyter", "echo 'usage: jupyter'; exit 2\n")
    image.python()
    assert image.start(PYSPARK_DRIVER_PYTHON=str(jupyter)).returncode == 0


def test_a_folder_named_pyspark_is_no_pyspark(image: Image) -> None:
    """A working directory with `pyspark/job.py`."""
    image.python(pyspark=False)
    home = image.spark()
    (image.work / "pyspark").mkdir()
    done = image.start(SPARK_HOME=str(home))
    assert done.returncode == 0, done.stderr
    assert f"'PYTHONPATH': '{image.mounted}/streamjob.zip:{home}/python:" in done.stdout


def test_a_pyspark_without_py4j_gets_that_of_its_spark_home(image: Image) -> None:
    """A PYTHONPATH that names a py4j of another version, or with a `*`; spark-submit adds its own as well."""
    image.python(pyspark=False)
    home = image.spark()
    done = image.start(SPARK_HOME=str(home), PYTHONPATH=f"{home}/python:{home}/python/lib/py4j-*.zip")
    assert f"{home}/python/lib/py4j-0.10.9.9-src.zip" in done.stdout


def test_a_python_that_was_killed_is_no_reason_to_give_up(image: Image) -> None:
    """For want of memory, for instance: the controller tries again."""
    image.program("python3", "kill -9 $$\n")
    done = image.start()
    assert done.returncode == 137
    assert not image.message.exists()


def test_a_home_that_is_no_folder_is_replaced(image: Image) -> None:
    image.python()
    assert "'HOME': '/tmp'" in image.start(HOME="/nonexistent").stdout
    assert f"'HOME': '{image.home}'" in image.start(HOME=str(image.home)).stdout


def test_an_image_without_python(image: Image) -> None:
    problem = image.refusal()
    assert (problem.reason, problem.retryable) == ("PythonMissing", False)
    assert "spec.image" in problem.message
    assert "apache/spark" in problem.remedy


def test_a_python_that_is_too_old(image: Image) -> None:
    image.program("python3", '[ "$1" = -V ] && echo "Python 3.8.20" && exit\nexit 3\n')
    problem = image.refusal()
    assert problem.reason == "PythonTooOld"
    assert "Python 3.8.20" in problem.message


def test_an_image_without_pyspark(image: Image) -> None:
    image.python(pyspark=False)
    assert image.refusal(SPARK_HOME="/no/spark").reason == "PysparkMissing"


def test_a_python_that_does_not_run(image: Image) -> None:
    image.program("python3", "exit 127\n")
    assert image.refusal().reason == "PythonBroken"


@pytest.mark.parametrize("file", ["streamjob.py", "streamjob/__init__.py"])
def test_a_script_that_would_run_in_place_of_the_runtime(image: Image, file: str) -> None:
    image.python()
    (image.work / file).parent.mkdir(exist_ok=True)
    (image.work / file).write_text("print('run by mistake')")
    problem = image.refusal()
    assert problem.reason == "RuntimeHidden"
    assert file in problem.message


def test_a_user_that_the_image_does_not_know(image: Image) -> None:
    """As on a platform that chooses users, where the image has no nss_wrapper."""
    image.python()
    for name, code in {"id": "echo 123456\n", "getent": "exit 2\n"}.items():
        (image.bin / name).unlink()
        image.program(name, code)
    # Whoever may write that file is added to it.
    launcher = image.mounted / runtime_files.LAUNCHER
    launcher.write_text(launcher.read_text().replace("/etc/passwd", "/nonexistent/passwd"))
    problem = image.refusal()
    assert problem.reason == "UserUnknown"
    assert "spec.driver.template" in problem.remedy


def test_a_message_with_quotes_is_still_json(image: Image) -> None:
    odd = image.program('py"thon', "exit 3\n")
    assert image.refusal(PYSPARK_PYTHON=str(odd)).reason == "PythonTooOld"


def test_a_message_of_several_lines_is_still_json(image: Image) -> None:
    image.program("python3", "[ \"$1\" = -V ] && printf 'a warning\\n\\tPython 3.8.20\\n' && exit\nexit 3\n")
    assert "Python 3.8.20" in image.refusal().message
