"""The runtime as the operator mounts it: an archive, from which driver and executors import."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from streamjob.controller.objects import runtime_files

pytestmark = pytest.mark.any_spark

SCRIPT = """
import os, sys
from pyspark.sql import SparkSession, functions as F

# The executors of a cluster do not inherit the driver's variables; these would, as its children.
os.environ["PYTHONPATH"] = "/of/the/image"
spark = (
    SparkSession.builder.master("local-cluster[1,1,512]").config("spark.executor.memory", "512m")
    .config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "1").getOrCreate()
)

def where(value):
    import streamjob.storage.executor_task as ours
    return f"{ours.__file__} {os.environ['PYTHONPATH']}"

rows = spark.readStream.schema("v long").json(sys.argv[1])
found = rows.select(F.udf(where, "string")("v").alias("at"))
found.writeStream.format("json").trigger(availableNow=True).start(sys.argv[2]).awaitTermination()
"""


def test_driver_and_executors_import_it(tmp_path: Path) -> None:
    mounted, inputs, out = tmp_path / "mounted", tmp_path / "in", tmp_path / "out"
    for folder in (mounted, inputs):
        folder.mkdir()
    archive = mounted / runtime_files.ARCHIVE
    archive.write_bytes(runtime_files.archive())
    (inputs / "0.json").write_text('{"v": 1}\n')
    script = tmp_path / "app.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "streamjob.runtime", "--local", "--state", str(tmp_path / "state")]
    done = subprocess.run(
        [*command, str(script), str(inputs), str(out)],
        env={**os.environ, "PYTHONPATH": str(archive), "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    lines = [line for file in out.glob("*.json") for line in file.read_text().splitlines()]
    (at,) = [json.loads(line)["at"].split() for line in lines]
    assert at[0].startswith(str(archive))
    assert at[1].split(os.pathsep)[-1] == "/of/the/image", "the image keeps its own modules"
