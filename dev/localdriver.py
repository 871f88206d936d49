"""A driver without Kubernetes, for tests and benchmarks: the real runtime in its own process.

`LocalDriver` takes the controller's place: it speaks the control protocol and confirms each durable
checkpoint. A test that confirms checkpoints itself passes `answers=False` and calls `complete`. `status` and
`terminate` are single calls, `finish` is the whole conversation.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import ssl
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import streamjob
from dev import ports
from dev.demo.waiting import PATIENCE
from streamjob.controller.objects import certs
from streamjob.protocol.formats import codec
from streamjob.protocol.formats.records import CheckpointRecord, JobRef
from streamjob.protocol.messages import final_report
from streamjob.protocol.messages.commands import (
    TERM_HEADER,
    Completed,
    Mode,
    SavepointRequest,
    TerminationRequest,
)
from streamjob.protocol.messages.driver_config import Application, DriverConfig, Restore
from streamjob.protocol.messages.driver_status import DriverStatus
from streamjob.storage.local_disk import uri_of

JOB = JobRef("default", "local", "00000000-0000-0000-0000-000000000001")
FAST = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


class LocalDriver:
    """One driver process, which is one epoch.

    :param home: folder for checkpoints, savepoints and logs. Later epochs use the same folder.
    :param storage: URI for checkpoints and savepoints, instead of `home`.
    :param environment: additional environment variables of the process.
    :param answers: whether to confirm checkpoints, as the controller does.
    :param python: the interpreter, of an environment with another Spark.
    :param config: further fields of `DriverConfig`.
    """

    def __init__(
        self,
        home: Path,
        script: Path | str,
        *args: str,
        epoch: int = 1,
        storage: str | None = None,
        environment: Mapping[str, str] | None = None,
        answers: bool = True,
        python: str = sys.executable,
        **config: object,
    ) -> None:
        self.home = home
        self.storage = storage or uri_of(home)
        self.environment = environment or {}
        self.epoch = epoch
        secrets = home / f"secrets-{epoch}"
        secrets.mkdir(parents=True)
        credentials = certs.new(datetime.now(timezone.utc))
        self._token = credentials.token
        for name, content in (
            ("token", credentials.token),
            ("tls.crt", credentials.certificate),
            ("tls.key", credentials.key),
        ):
            (secrets / name).write_text(content)
        self.port, self.metrics_port = ports.free(), ports.free()
        self.log = home / f"driver-{epoch}.log"
        self.report_file = home / f"report-{epoch}.json"
        spark_conf = {**FAST, **config.pop("spark_conf", {})}  # type: ignore[dict-item]
        self.config = DriverConfig(
            job=config.pop("job", JOB),  # type: ignore[arg-type]
            epoch=epoch,
            application=Application(file=str(script), args=args),
            checkpoints=f"{self.storage}/checkpoints",
            eviction_savepoint=f"{self.storage}/savepoints/eviction-{epoch}",
            spark_conf=spark_conf,
            **config,  # type: ignore[arg-type]
        )
        self.record = self.config.restore.latest  # a driver that starts no query leaves it as it is
        variables = {
            **os.environ,
            "PYTHONUNBUFFERED": "1",
            **self.environment,
            "STREAMJOB_CONFIG": codec.dumps(self.config),
            "STREAMJOB_SECRETS": str(secrets),
            "STREAMJOB_PORT": str(self.port),
            "STREAMJOB_METRICS_PORT": str(self.metrics_port),
            "STREAMJOB_TERMINATION_LOG": str(self.report_file),
            "PYSPARK_PYTHON": python,
            "PYTHONPATH": str(Path(streamjob.__file__).parents[1]),
        }
        self._tls = ssl.create_default_context(cadata=credentials.certificate)
        self._tls.check_hostname = False
        self._kept = threading.local()
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [python, "-m", "streamjob.runtime"],
                env=variables,
                cwd=home,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.answers = False
        self._last: DriverStatus | None = None  # as whoever asked for it last has got it
        self.confirmed: list[CheckpointRecord] = []  # what the index would hold
        if answers:
            self.answer()

    def answer(self) -> None:
        """Confirm each durable checkpoint from now on."""
        if not self.answers:
            self.answers = True
            threading.Thread(target=self._answer, name="index", daemon=True).start()

    def _answer(self) -> None:
        """Act as the controller: commit each durable checkpoint to the index and confirm it to the driver."""
        version = -1
        while self.process.poll() is None:
            try:
                status = self.status(version, timeout=5)
                for record in status.durable:
                    if record not in self.confirmed:
                        self.confirmed.append(record)
                        self.complete(record.checkpoint)
                version = status.version
            except (OSError, http.client.HTTPException):
                time.sleep(0.02)  # the endpoint is not up yet, or no longer up

    # --- single calls ---------------------------------------------------------------------------------------

    def call(self, method: str, path: str, body: object = None) -> tuple[int, str]:
        """Make a call. Each thread keeps its connection, as the controller does."""
        kept: http.client.HTTPSConnection | None = self._kept.__dict__.pop("connection", None)
        if kept is not None:
            try:
                return self._call(kept, method, path, body)
            except (OSError, http.client.HTTPException):
                kept.close()  # the driver had closed it, or has ended
        new = http.client.HTTPSConnection("127.0.0.1", self.port, context=self._tls, timeout=70)
        try:
            return self._call(new, method, path, body)
        except BaseException:
            new.close()
            raise

    def _call(
        self, connection: http.client.HTTPSConnection, method: str, path: str, body: object
    ) -> tuple[int, str]:
        data = codec.dumps(body).encode() if body is not None else None
        connection.request(method, path, data, {"Authorization": f"Bearer {self._token}", TERM_HEADER: "1"})
        answer = connection.getresponse()
        text = answer.read().decode()
        self._kept.connection = connection
        return answer.status, text

    def status(self, after: int = -1, timeout: float = 0) -> DriverStatus:
        code, text = self.call("GET", f"/v1/status?after={after}&timeout={timeout}")
        assert code == 200, text
        self._last = codec.loads(DriverStatus, text)
        return self._last

    def is_up(self) -> bool:
        """Whether its endpoint answers, now."""
        try:
            self.status()
        except (OSError, http.client.HTTPException):
            return False
        return True

    def metrics(self) -> str:
        """What Prometheus would read."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=10) as answer:
            return str(answer.read().decode())

    def terminate(
        self, mode: Mode, savepoint: str | None = None, timeout: float | None = None
    ) -> TerminationRequest:
        """Request a termination.

        :param savepoint: name of the savepoint below the folder of savepoints; by default mode and epoch.
        """
        uri = f"{self.storage}/savepoints/{savepoint or f'{mode.value.lower()}-{self.epoch}'}"
        request = TerminationRequest(f"{mode.value.lower()}-{self.epoch}", self.epoch, mode, uri, timeout)
        code, text = self.call("PUT", "/v1/termination", request)
        assert code == 202, text
        return request

    def savepoint(self, name: str, timeout: float = PATIENCE) -> int:
        """Request a live savepoint.

        :param name: name of the savepoint below `home/savepoints`, also the id of the request.
        :param timeout: seconds after which the driver gives it up.
        :returns: the HTTP status code of the answer.
        """
        request = SavepointRequest(name, self.epoch, uri_of(self.home / "savepoints" / name), timeout)
        return self.call("PUT", "/v1/savepoint", request)[0]

    def saved(self, name: str) -> CheckpointRecord:
        """Wait until the savepoint is durable, then confirm its checkpoint."""
        status = self.wait_for(
            lambda s: s.savepoint is not None and s.savepoint.request_id == name and s.savepoint.over
        )
        assert status.savepoint is not None
        assert status.savepoint.completed is not None, status.savepoint.problem
        self.record = status.savepoint.completed
        self.complete(self.record.checkpoint)
        return self.record

    def complete(self, checkpoint: int) -> None:
        self.call("PUT", f"/v1/checkpoints/{checkpoint}/completed", Completed(self.epoch))

    # --- conversations --------------------------------------------------------------------------------------

    def wait_for(self, condition: Callable[[DriverStatus], bool], timeout: float = PATIENCE) -> DriverStatus:
        """Wait for the first status that meets the condition.

        A driver may exit between two calls, once it has been told all that it waits for. Then its last status
        counts: the one that the index got, or the final report.

        :raises AssertionError: the driver ended or the time ran out; the message has the end of its log.
        """
        deadline = time.monotonic() + timeout
        after = -1
        while time.monotonic() < deadline:
            try:
                status = self.status(after, timeout=1)
            except (OSError, http.client.HTTPException):
                if self.process.poll() is None:
                    time.sleep(0.02)
                    continue
                last = [self._last, self.report() if self.report_file.exists() else None]
                if found := [status for status in last if status is not None and condition(status)]:
                    return found[0]
                break
            if condition(status):
                return status
            after = status.version
        raise AssertionError(f"the driver did not get there (exit {self.process.poll()}):\n{self.tail()}")

    def running(self, batches: int = 1) -> DriverStatus:
        """Wait until a query has committed batch number `batches`."""
        return self.wait_for(lambda s: any((t.batch or 0) >= batches for g in s.stages for t in g.tasks))

    def finish(self, mode: Mode | None = None, savepoint: str | None = None) -> CheckpointRecord:
        """End the job as the controller does: request, durable checkpoint, confirmation, exit code 0.

        :param mode: how to end the job. None waits for a job that ends without a request.
        """
        if mode is not None:
            self.wait_for(lambda s: True)  # the endpoint is up
            self.terminate(mode, savepoint)
        answered = self.answers
        self.answer()
        status = self.wait_for(lambda s: s.completed is not None and s.completed.scenario is not None)
        assert status.completed is not None
        self.record, self.answers = status.completed, answered
        assert self.wait() == 0, self.tail()
        return self.record

    def next_epoch(self, script: Path | str, *args: str, exact: bool = True, **config: object) -> LocalDriver:
        """The driver that the controller would start after this one."""
        exact = exact and self.record is not None
        restore = Restore(latest=self.record, exact=exact, again=self.record is not None and not exact)
        if self.record and self.record.savepoint and not self.record.stages:  # it may be cut off
            restore = replace(restore, latest=None, recorded=self.record.savepoint)
        number = self.record.checkpoint + 1 if self.record else self.config.next_checkpoint
        config = {"restore": restore, "next_checkpoint": number, **config}
        return LocalDriver(
            self.home,
            script,
            *args,
            epoch=self.epoch + 1,
            storage=self.storage,
            environment=self.environment,
            **{"answers": self.answers, **config},  # type: ignore[arg-type]
        )

    def wait(self, timeout: float = PATIENCE) -> int:
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the driver does not end:\n{self.tail()}") from None

    def kill(self) -> None:
        """Kill the driver and its JVM with SIGKILL, as the loss of a node does."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def jvm(self) -> str:
        """The pid of the driver's JVM."""
        (jvm,) = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return jvm

    def report(self) -> DriverStatus:
        """The driver's final report: its termination message."""
        return final_report.read(self.report_file.read_text())

    def tail(self, lines: int = 40) -> str:
        """The end of the driver's log, preceded by the problem in its final report, if any."""
        problem = self.report().problem if self.report_file.exists() else None
        end = self.log.read_text(errors="replace").splitlines()[-lines:]
        return "\n".join([problem.message, *end] if problem else end)

    def boundary(self, stage: str = "main") -> tuple[int, int]:
        """The latest batch numbers in the offset log and the commit log of a stage, -1 if a log is empty."""
        root = self.home / "checkpoints" / stage / "0"
        return _latest(root / "offsets"), _latest(root / "commits")

    def __enter__(self) -> LocalDriver:
        return self

    def __exit__(self, *exc: object) -> None:
        self.kill()


def manifest(uri: str) -> dict[str, object]:
    parsed = json.loads((Path(uri.removeprefix("file://")) / "manifest.json").read_text())
    assert isinstance(parsed, dict)
    return parsed


def _latest(folder: Path) -> int:
    return (
        max((int(f.name) for f in folder.iterdir() if f.name.isdigit()), default=-1)
        if folder.exists()
        else -1
    )
