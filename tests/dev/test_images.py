"""The images that only some jobs need: what is in them, asked of a program that runs in one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dev.images import build, sparks, store
from dev.s3.server import S3

pytestmark = [
    pytest.mark.cluster,  # which builds the layers that these images share with the driver's
    pytest.mark.only_if_changed(
        *("Dockerfile", "docker", "dev/images", "dev/s3", "requirements"),
        *("operator/streamjob/jvm", "operator/streamjob/storage"),
    ),
    pytest.mark.skipif(bool(os.environ.get("CLUSTER")), reason="the images are somebody else's"),
]
WRITES_AND_READS = """
import sys
from streamjob.jvm import class_archive
from streamjob.storage.hadoop import HadoopFiles
from streamjob.jvm.standalone import SmallJvm

assert class_archive.settings(), "no archive of classes"
jvm = SmallJvm({f"spark.hadoop.{k}": v for k, v in (setting.split("=") for setting in sys.argv[1:])})
files = HadoopFiles(jvm)
files.write_new("s3a://images/one", b"as written")
print(files.read_bytes("s3a://images/one").decode())
jvm.close()
"""
LAYOUT = """
id -un; id -u; id -gn; id -g; echo $HOME; pwd; echo $SPARK_HOME
stat -c %A . /opt/entrypoint.sh /opt/decom.sh
command -v python3; command -v python; env | grep -c PYTHONPATH
python3 -c 'import pyspark' 2>&1 | tail -n 1
python3 -c 'import streamjob' 2>&1 | tail -n 1
cd $SPARK_HOME && ls -d bin/spark-submit jars/spark-core_2.* python/pyspark python/lib/*.zip sbin
"""
COUNT = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
print(spark.version, spark.sparkContext.parallelize(range(5)).map(lambda n: 2 * n).sum())
"""
PYSPARK = "PYTHONPATH=$SPARK_HOME/python:$(echo $SPARK_HOME/python/lib/py4j-*-src.zip)"


def test_the_driver_with_the_connector_for_s3_has_all_of_it(tmp_path: Path) -> None:
    """A jar that is missing shows only when something calls it: so a real server is
    written to and read from.
    """
    build.build(["driver-s3"], None, [])
    server = S3(tmp_path)
    server.start()
    try:
        server.bucket("images")
        # Not from the environment: Spark then asks for the host's name, which in the chroot leads nowhere.
        settings = [f"{k}={v}" for k, v in {**server.settings(), **server.keys}.items()]
        said = run("driver-s3", "python", "-c", WRITES_AND_READS, *settings)
    finally:
        server.stop()
    assert said == "as written\n"


def test_a_stock_image_is_laid_out_as_sparks_own() -> None:
    """Of both layouts: what a job finds there, and what it does not find."""
    build.build(["stock", "stock-numeric"], None, [])
    user, uid, group, gid, *rest = run("stock", "sh", "-c", LAYOUT).splitlines()
    assert (user, uid, group, gid) == ("spark", "185", "spark", "185")
    home, folder, spark, work, entry, decom, python, pythonpaths, pyspark, ours, *files = rest
    assert (home, folder, spark) == ("/nonexistent", "/opt/spark/work-dir", "/opt/spark")
    assert (work, entry, decom) == ("drwxrwxr-x", "-rwxr-xr-x", "-rwxr-xr-x")
    assert (python, pythonpaths) == ("/usr/bin/python3", "0")  # and no `python`
    assert pyspark == "ModuleNotFoundError: No module named 'pyspark'"
    assert ours == "ModuleNotFoundError: No module named 'streamjob'"
    assert [file.partition("-")[0] for file in files] == [
        *("bin/spark", "jars/spark", "python/lib/py4j", "python/lib/pyspark.zip", "python/pyspark", "sbin"),
    ]
    counted = run("stock", "sh", "-c", f"{PYSPARK} exec python3 -c '{COUNT}' 2>&1")
    assert counted.splitlines()[-1] == f"{sparks.version(sparks.DEFAULT)} 20"
    named = run("stock-numeric", "/opt/entrypoint.sh", "sh", "-c", "id -u; id -g; getent passwd 185")
    assert named.splitlines() == ["185", "0", "185:x:185:0:anonymous uid:/opt/spark:/bin/false"]


def run(image: str, *command: str) -> str:
    """What a program says in a container of this image, on the machine's network."""
    container = store.buildah("from", "--pull-never", store.full_name(image)).strip()
    address = "SPARK_LOCAL_IP=127.0.0.1"
    words = ["run", "--isolation", "chroot", "--env", address, container, "--"]
    try:
        return store.buildah(*words, *command, timeout=600)
    finally:
        store.buildah("rm", container)
