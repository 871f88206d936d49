"""Programs that tests run in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark

ROOT = Path(__file__).parents[3]


def environment() -> dict[str, str]:
    """Variables of a process that runs one of these programs."""
    return {
        **os.environ,
        "PYTHONPATH": f"{ROOT / 'operator'}:{ROOT}",
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "PYSPARK_PYTHON": sys.executable,
    }


def said_by(app: str, *args: object, home: Path, timeout: float) -> dict[str, Any]:
    """Run one of these programs with a `local-cluster` of its own.

    :param home: its working directory; its log is there.
    :returns: what it has printed: a JSON object in each line, merged.
    """
    with (home / "log").open("w") as log:
        done = subprocess.run(
            [sys.executable, "-m", f"{__name__}.{app}", *map(str, args)],
            env=environment(),
            cwd=home,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            timeout=timeout,
            check=False,
        )
    assert done.returncode == 0, (home / "log").read_text()[-3000:]
    return {key: value for line in done.stdout.splitlines() for key, value in json.loads(line).items()}
