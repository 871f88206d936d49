"""A module that is not in the image, on an executor in its own pod."""

from __future__ import annotations

import json

import pytest

from dev.demo.job import Job
from dev.demo.site import Site
from dev.demo.waiting import PATIENCE, until

from .jobs import delete, local_job, make_scripts
from .shared_volume import Storage

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1200)]
NAME = "deps"
SCRIPT = """
import words
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.getOrCreate()

@F.udf("string")
def told(v):
    import socket, words
    return f"{words.WORD} {socket.gethostname()}"

rows = spark.readStream.format("rate").load().select(told("value").alias("told"))
rows.writeStream.format("json").start("/data/out/deps").awaitTermination()
"""


@pytest.mark.slow
def test_an_executor_imports_a_module_of_pyfiles(cluster: Site, storage: Storage) -> None:
    """The script's folder is on the path of the driver only, so the module is in another one."""
    kubectl = cluster.kubectl
    make_scripts(kubectl, "deps", {"app.py": SCRIPT})
    make_scripts(kubectl, "deps-modules", {"words.py": "WORD = 'said'"})
    job = local_job(cluster, NAME, "app.py", scripts="deps", termination={"onDelete": "Cancel"})
    spec = job["spec"]
    spec["executor"] = {"instances": 1, "cores": "100m", "memory": "512Mi"}
    spec["deps"] = {"pyFiles": ["local:///modules/words.py"]}
    spec["storage"]["volumes"].append({"name": "modules", "configMap": {"name": "deps-modules"}})
    spec["storage"]["volumeMounts"].append({"name": "modules", "mountPath": "/modules"})
    kubectl.apply(job)
    try:

        def told() -> set[str]:
            found = storage.shell(f"cat /data/out/{NAME}/part-* 2>/dev/null || true")
            return {json.loads(line)["told"] for line in found.splitlines()}

        words = until(told, "rows of the executor", PATIENCE, every=1)
        assert words == {f"said {NAME}-1-exec-1"}
    finally:
        delete(Job(kubectl, NAME))
