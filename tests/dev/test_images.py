"""The image that only some jobs need: what is in it, asked of a program that runs in it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dev.images import build, store
from dev.s3.server import S3

pytestmark = [
    pytest.mark.cluster,  # which builds the layers that this image shares with the driver's
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
        said = run("driver-s3", WRITES_AND_READS, *settings)
    finally:
        server.stop()
    assert said == "as written\n"


def run(image: str, script: str, *arguments: str) -> str:
    """What a Python program says in a container of this image, on the machine's network."""
    container = store.buildah("from", "--pull-never", store.full_name(image)).strip()
    address = "SPARK_LOCAL_IP=127.0.0.1"
    words = ["run", "--isolation", "chroot", "--env", address, container, "--", "python", "-c", script]
    try:
        return store.buildah(*words, *arguments, timeout=600)
    finally:
        store.buildah("rm", container)
