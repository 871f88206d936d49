"""An S3 server for tests: one process on a free port of this machine. Its buckets are folders."""

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

# Filled by dev/bootstrap.sh servers, for each version of Spark, because each has another Hadoop.
JARS = cache_folder() / "jars-s3" / ".".join(pyspark.__version__.split(".")[:2])
CONNECTOR = ",".join(str(jar) for jar in sorted(JARS.glob("*.jar")))  # for spark.jars
KEY, SECRET = "streamjob-tests", "a-secret-that-no-log-may-hold"


class S3:
    """A server whose address is known before it starts, because Spark needs the address when Spark itself
    starts.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = ports.free(kept=True)
        self.buckets = folder / "buckets"

    def bucket(self, name: str) -> Path:
        """Create a bucket. Return its folder, in which the objects are files."""
        (self.buckets / name).mkdir()
        return self.buckets / name

    def settings(self) -> dict[str, str]:
        """Hadoop's settings that say where the server is. Credentials belong in `environment`."""
        return {
            "fs.s3a.endpoint": f"http://127.0.0.1:{self._port}",
            "fs.s3a.endpoint.region": "us-east-1",
            "fs.s3a.path.style.access": "true",
        }

    @property
    def keys(self) -> dict[str, str]:
        """Hadoop's settings with the credentials, for a process that shares its environment with others."""
        return {"fs.s3a.access.key": KEY, "fs.s3a.secret.key": SECRET}

    @property
    def environment(self) -> Mapping[str, str]:
        """Environment variables with the credentials, for a process that may use the server."""
        return {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}

    def start(self, *, read_only: bool = False) -> None:
        """Start the server. After `stop`, it starts again with the same content.

        :param read_only: the server denies every change.
        :raises FileNotFoundError: Hadoop's S3 connector is missing.
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
        """Kill the server, so that it is unreachable."""
        self.go_on()
        self._process.kill()
        self._process.wait()

    def hold(self) -> None:
        """Suspend the server, so that it does not answer until `go_on`."""
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
    """Make the server deny every change while the block runs."""
    s3.stop()
    s3.start(read_only=True)
    try:
        yield
    finally:
        s3.stop()
        s3.start()
