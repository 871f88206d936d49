"""An S3 server for tests: one process on a free port of this machine, its buckets folders of a folder of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyspark

from dev import ports
from dev.cluster.layout import cache_folder
from dev.demo.waiting import PATIENCE
from dev.s3.build import gateway

# Made by dev/bootstrap.sh servers, for each version of Spark's Hadoop.
JARS = cache_folder() / "jars-s3" / ".".join(pyspark.__version__.split(".")[:2])
CONNECTOR = ",".join(str(jar) for jar in sorted(JARS.glob("*.jar")))  # for spark.jars
KEY, SECRET = "streamjob-tests", "a-secret-that-no-log-may-hold"


class S3:
    """Its address is known before it is started: a Spark that may use it is told when it starts itself."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = ports.free(kept=True)
        self.buckets = folder / "buckets"

    def bucket(self, name: str) -> Path:
        """A new one; its folder, in which the objects are files."""
        (self.buckets / name).mkdir()
        return self.buckets / name

    def settings(self) -> dict[str, str]:
        """Of Hadoop: where the server is. Who one is belongs into `environment`."""
        return {
            "fs.s3a.endpoint": f"http://127.0.0.1:{self._port}",
            "fs.s3a.endpoint.region": "us-east-1",
            "fs.s3a.path.style.access": "true",
        }

    @property
    def keys(self) -> dict[str, str]:
        """Of a Hadoop that may use it and shares its environment with others."""
        return {"fs.s3a.access.key": KEY, "fs.s3a.secret.key": SECRET}

    @property
    def environment(self) -> Mapping[str, str]:
        """Of a process that may use it."""
        return {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}

    def start(self, *, read_only: bool = False) -> None:
        """Also again after `stop`, with what it had. :param read_only: it denies whatever would change something.

        :raises FileNotFoundError: Hadoop's connector is not there.
        """
        if not CONNECTOR:
            raise FileNotFoundError(f"no connector for S3 in {JARS}: run dev/bootstrap.sh servers")
        metadata = self._folder / "metadata"
        for made in (self.buckets, metadata):
            made.mkdir(parents=True, exist_ok=True)
        who = ["--access", KEY, "--secret", SECRET]
        where = ["--port", f"127.0.0.1:{self._port}", "--health", "/health", "--quiet"]
        how = ["--readonly"] if read_only else []
        command = [
            str(w) for w in (gateway(), *who, *where, *how, "posix", "--sidecar", metadata, self.buckets)
        ]
        with (self._folder / "log").open("a") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        self._wait()

    def stop(self) -> None:
        """As a server that is gone."""
        self.go_on()
        self._process.kill()
        self._process.wait()

    def hold(self) -> None:
        """As a server that does not answer, until `go_on`."""
        os.kill(self._process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.kill(self._process.pid, signal.SIGCONT)

    def _wait(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while self._process.poll() is None and time.monotonic() < deadline:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/health", timeout=5):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.05)
        raise RuntimeError(f"the S3 server did not start: {(self._folder / 'log').read_text()[-2000:]}")


@contextmanager
def denied(s3: S3) -> Iterator[None]:
    """In the block the server denies whatever would change something."""
    s3.stop()
    s3.start(read_only=True)
    try:
        yield
    finally:
        s3.stop()
        s3.start()
