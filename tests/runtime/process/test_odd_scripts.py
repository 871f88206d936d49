"""Scripts without Spark that do what only some do: forks (which have Python's own signals and way out, and
are no driver), links, hooks, streams that they close or replace.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

import streamjob
from tests import gate

SCRIPTS = {
    "a child that is terminated": """
        import multiprocessing, sys, time

        def beat(up):
            up.set()
            time.sleep(3600)

        up = multiprocessing.Event()
        child = multiprocessing.Process(target=beat, args=(up,))
        child.start()
        up.wait()
        child.terminate()
        child.join(300)
        print("ended with", child.exitcode)
        with multiprocessing.Pool(2) as pool:
            print(pool.map(abs, [-1, -2]))
        sys.exit(6)
        """,
    "a daemon child that the parent ends with": """
        import multiprocessing, sys, time

        multiprocessing.Process(target=time.sleep, args=(3600,), daemon=True).start()
        sys.exit(5)
        """,
    "a child that leaves": """
        import atexit, os, sys, threading

        atexit.register(lambda: print("at exit", flush=True))
        child = os.fork()
        if child == 0:
            print("child")
            threading.Thread(target=lambda: print("thread", flush=True)).start()
            sys.exit(7)
        print("child left with", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        sys.exit(4)
        """,
    "a child that raises": """
        import os, sys

        child = os.fork()
        if child == 0:
            raise ValueError("in the child")
        print("child left with", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        sys.exit(3)
        """,
    "a hook that raises": """
        import atexit, sys

        def hook(kind, error, trace):
            raise OSError("no network")

        sys.excepthook = hook
        atexit.register(lambda: print(sys.last_type.__name__, sys.last_value))
        raise ValueError("of the script")
        """,
    "a stream that is closed": """
        import sys

        print("before", flush=True)
        sys.stdout.close()
        sys.exit(2)
        """,
    "no stream": """
        import sys

        sys.stdout.write("before\n")
        sys.stdout.flush()
        sys.stdout = None
        raise KeyError("after")
        """,
}


SOURCE = str(Path(streamjob.__file__).parents[1])


def run(*command: str, home: Path, **variables: str) -> tuple[int, list[str], str]:
    done = subprocess.run(
        [sys.executable, *command],
        cwd=home,
        env={**os.environ, "PYTHONPATH": SOURCE, **variables},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    # Ours is one write; where the output is not buffered (PYTHONUNBUFFERED), Python writes the end of a line
    # by itself.
    theirs = re.sub(r"streamjob: .*\n", "", done.stdout)
    return done.returncode, theirs.splitlines(), done.stderr


@pytest.mark.parametrize("what", gate.slow_but(("a child that leaves", "a stream that is closed"), SCRIPTS))
def test_as_under_plain_python(what: str, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(dedent(SCRIPTS[what]))
    plain = run("app.py", home=tmp_path)
    managed = run("-m", "streamjob.runtime", "--local", "app.py", home=tmp_path)
    assert managed[:2] == plain[:2]
    assert [line for line in plain[2].splitlines() if line not in managed[2].splitlines()] == []


def test_a_link_to_a_script_beside_its_module(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/helper.py").write_text("WORD = 'helped'")
    (tmp_path / "real/main.py").write_text(
        "import helper, sys\nprint(helper.WORD, __annotations__)\nsys.exit(2)\n"
    )
    (tmp_path / "app.py").symlink_to("real/main.py")
    managed = run("-m", "streamjob.runtime", "--local", "app.py", home=tmp_path)
    assert managed[:2] == run("app.py", home=tmp_path)[:2] == (2, ["helped {}"])


PATHS = """
import sys

print(sys.path, sys.argv, __file__, __loader__.path)
sys.exit(2)
"""


@pytest.mark.parametrize("python", [(), ("-P",)])
@pytest.mark.parametrize("own", gate.slow_but(["elsewhere"], [".", "elsewhere"]))
def test_modules_are_looked_up_where_python_looks_them_up(
    tmp_path: Path, python: tuple[str, ...], own: str
) -> None:
    """`python -m` puts the working directory first, `python jobs/app.py` puts jobs there.

    PYTHONPATH stays.
    """
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs/app.py").write_text(PATHS)
    path = os.pathsep.join([str(tmp_path / own), SOURCE])
    plain = run(*python, "jobs/app.py", home=tmp_path, PYTHONPATH=path)
    managed = run(
        *python, "-m", "streamjob.runtime", "--local", "jobs/app.py", home=tmp_path, PYTHONPATH=path
    )
    assert managed[:2] == plain[:2]
    assert plain[0] == 2


def test_the_working_directory_does_not_hide_the_standard_library(tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs/app.py").write_text("import colorsys, sys\nprint(colorsys.__file__)\nsys.exit(2)\n")
    (tmp_path / "colorsys.py").write_text("")
    plain = run("jobs/app.py", home=tmp_path)
    managed = run("-m", "streamjob.runtime", "--local", "jobs/app.py", home=tmp_path)
    assert managed[:2] == plain[:2]


def test_a_runtime_that_is_found_in_the_working_directory_finds_the_rest_of_itself(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(
        "import sys\n"
        "assert 'streamjob.runtime.savepoints.cli' not in sys.modules\n"
        "from streamjob.runtime.savepoints import cli\n"
        "print(cli.__file__)\n"
        "sys.exit(2)\n"
    )
    state = str(tmp_path / "state")
    managed = run(
        *("-m", "streamjob.runtime", "--local", "--state", state, str(tmp_path / "app.py")),
        home=Path(SOURCE),
        PYTHONPATH="",
    )
    assert managed[:2] == (2, [f"{SOURCE}/streamjob/runtime/savepoints/cli.py"])


def test_a_traceback_of_a_script_that_has_changed_its_folder(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("import os\nos.chdir('/')\n\ndef f():\n    1 / 0\n\nf()\n")
    plain = run("app.py", home=tmp_path)
    managed = run("-m", "streamjob.runtime", "--local", "app.py", home=tmp_path)
    frames = [line for line in plain[2].splitlines() if line.startswith("  File")]
    assert len(frames) == 2
    assert [line for line in managed[2].splitlines() if line.startswith("  File")] == frames


@pytest.mark.parametrize("late", ["SIGINT", "SIGTERM"])
def test_a_signal_that_comes_when_python_ends_does_not_change_the_exit_code(
    tmp_path: Path, late: str
) -> None:
    script = f"""
        import os, signal, sys

        signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell has it ignored

        class Last:
            def __del__(self, kill=os.kill, me=os.getpid(), late=signal.{late}):
                kill(me, late)

        sys.last = Last()  # deleted when Python has restored the default actions of the signals
        sys.exit(3)
        """
    (tmp_path / "app.py").write_text(dedent(script))
    managed = run("-m", "streamjob.runtime", "--local", "app.py", home=tmp_path)
    assert managed[:2] == (3, [])
    assert run("app.py", home=tmp_path)[0] != 3  # it does come that late


SETTINGS_KEPT = """
import glob, os, sys, tempfile

def settings():
    return len(glob.glob(tempfile.gettempdir() + "/streamjob-conf-*/spark.properties"))

child = os.fork()
if child == 0:
    sys.exit(0)
os.waitpid(child, 0)
print(settings())
sys.exit(2)
"""


def test_sparks_settings_are_deleted_at_the_exit_and_not_by_a_forked_child(tmp_path: Path) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    (tmp_path / "app.py").write_text(SETTINGS_KEPT)
    managed = run("-m", "streamjob.runtime", "--local", "app.py", home=tmp_path, TMPDIR=str(temporary))
    assert managed[:2] == (2, ["1"])
    assert list(temporary.glob("streamjob-conf-*")) == []
