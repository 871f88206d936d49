"""Run a short command to its end, always with a time limit. If it fails, the error has its output."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from dev.cluster.layout import ClusterError

# Debian's network tools are in sbin, which is often missing in the PATH of a service or of cron.
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def run(
    *command: str | Path,
    timeout: float = 120,
    check: bool = True,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    log: Path | None = None,
    title: str = "",
) -> str:
    """Return the command's standard output.

    :param timeout: in seconds.
    :param check: raise an error if the command fails.
    :param log: a file for all output, which is then not returned.
    :param title: names the command in errors; by default its first four words.
    :raises ClusterError: the command failed, timed out, or does not exist.
    """
    words = [str(word) for word in command]
    title = title or " ".join(words[:4])
    environment = {**os.environ, "PATH": os.environ.get("PATH", "") + ":" + PATH, **(env or {})}
    try:
        if log is None:
            done = subprocess.run(
                words, capture_output=True, text=True, timeout=timeout, env=environment, cwd=cwd, check=False
            )
            said = done.stdout + done.stderr
        else:
            log.parent.mkdir(parents=True, exist_ok=True)
            with log.open("w") as out:
                done = subprocess.run(
                    words,
                    stdout=out,
                    stderr=out,
                    text=True,
                    timeout=timeout,
                    env=environment,
                    cwd=cwd,
                    check=False,
                )
            said = ""
    except subprocess.TimeoutExpired:
        raise ClusterError(f"`{title}` did not end within {timeout:.0f} s{_where(log)}") from None
    except FileNotFoundError:
        raise ClusterError(f"the program {words[0]} is not on this machine") from None
    if check and done.returncode != 0:
        said = said or tail(log)
        raise ClusterError(f"`{title}` failed ({done.returncode}){_where(log)}:\n{indent(said)}")
    return done.stdout or ""


def tail(log: Path | None, lines: int = 12) -> str:
    if log is None or not log.exists():
        return ""
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])


def indent(text: str) -> str:
    return "\n".join("    " + line for line in text.strip().splitlines())


def _where(log: Path | None) -> str:
    return f", log: {log}" if log else ""
