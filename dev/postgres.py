"""A PostgreSQL server for tests: Debian's, on a free port of this machine, with its data
in its own folder.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from dev import ports

USER = "postgres"  # the server refuses to run as root


class Postgres:
    """A server that the constructor starts. `stop()` ends it and removes its folder.

    :raises FileNotFoundError: PostgreSQL is not installed.
    """

    def __init__(self, folder: Path) -> None:
        self._programs = next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"))), None)
        if self._programs is None:
            raise FileNotFoundError("PostgreSQL is not installed: run dev/bootstrap.sh servers")
        self._folder = folder
        self._data = folder / "data"
        self._port = ports.free(kept=True)
        folder.mkdir(parents=True)
        if os.geteuid() == 0:
            shutil.chown(folder, USER)
        # fsync is off for speed: data survives a crash of the server, but not of the machine.
        self._settings = f"-p {self._port} -k '' -h 127.0.0.1 -c max_prepared_transactions=20 -c fsync=off"
        self._run("initdb", "-D", self._data, "-U", "test", "-A", "trust", "--no-sync", "-E", "UTF8")
        self._start()

    @property
    def url(self) -> str:
        return f"jdbc:postgresql://127.0.0.1:{self._port}/postgres?user=test"

    def sql(self, statement: str) -> list[list[str]]:
        """Run a statement and return its rows, as text."""
        done = self._run(
            "psql", "-h", "127.0.0.1", "-p", str(self._port), "-U", "test", "-d", "postgres",
            "-v", "ON_ERROR_STOP=1", "-qAtF", "\t", "-c", statement,
        )  # fmt: skip
        return [line.split("\t") for line in done.splitlines()]

    def restart(self) -> None:
        """Restart the server as after a crash. Prepared transactions survive."""
        self._run("pg_ctl", "-D", self._data, "-w", "-m", "immediate", "stop")
        self._start()

    def stop(self) -> None:
        self._run("pg_ctl", "-D", self._data, "-m", "immediate", "stop")
        shutil.rmtree(self._folder)

    def _start(self) -> None:
        log = self._folder / "log"
        self._run("pg_ctl", "-D", self._data, "-w", "-t", 300, "-l", log, "-o", self._settings, "start")

    def _run(self, program: str, *words: object) -> str:
        assert self._programs is not None
        done = subprocess.run(
            [str(self._programs / program), *map(str, words)],
            capture_output=True,
            text=True,
            cwd="/",
            user=USER if os.geteuid() == 0 else None,
            check=False,
            timeout=300,
        )
        if done.returncode:
            raise RuntimeError(f"{program}: {(done.stderr or done.stdout).strip()}")
        return done.stdout
