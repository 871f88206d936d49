"""Scripts without Spark that do what only some do: forks (which have Python's own signals and way out, and are no driver), links,
hooks, streams that they close or replace."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

import streamjob

SCRIPTS = {
    "a child that is terminated": """
        import multiprocessing, sys, time

        def beat(up):
            up.set()
            time.sleep(60)

        up = multiprocessing.Event()
        child = multiprocessing.Process(target=beat, args=(up,))
        child.start()
        up.wait()
        child.terminate()
        child.join(20)
        print("ended with", child.exitcode)
        with multiprocessing.Pool(2) as pool:
            print(pool.map(abs, [-1, -2]))
        sys.exit(6)
        """,
    "a daemon child that the parent ends with": """
        import multiprocessing, sys, time

        multiprocessing.Process(target=time.sleep, args=(60,), daemon=True).start()
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


def run(*command: str, home: Path) -> tuple[int, list[str], str]:
    done = subprocess.run(
        [sys.executable, *command],
        cwd=home,
        env={**os.environ, "PYTHONPATH": str(Path(streamjob.__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    # Ours is one write; where the output is not buffered (PYTHONUNBUFFERED), Python writes the end of a line by itself.
    theirs = re.sub(r"streamjob: .*\n", "", done.stdout)
    return done.returncode, theirs.splitlines(), done.stderr


@pytest.mark.parametrize("what", SCRIPTS)
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
