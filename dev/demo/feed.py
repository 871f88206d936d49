"""Feed the flights to Kafka from this machine: examples/flights/produce.py | kubectl exec
… console producer.
"""

import subprocess
import sys
import threading
from typing import IO

from dev.cluster.layout import REPOSITORY
from dev.demo.kubectl import Kubectl
from dev.demo.waiting import Failure, until

PRODUCE = REPOSITORY / "examples" / "flights" / "produce.py"
KAFKA = "deployment/kafka"
BROKERS = "localhost:9092"
FLIGHTS = 336_776
# By default the console producer waits 1.5 s for a broker, tries three times, and then drops the rows: it
# prints a line to stderr and exits with code 0.
PATIENT = [
    *("--request-timeout-ms", "120000", "--message-send-max-retries", "1000000", "--max-block-ms", "600000"),
    *("--producer-property", "delivery.timeout.ms=600000", "--producer-property", "enable.idempotence=true"),
]


class Feed:
    """Feeds rows to a topic. `written` counts the rows handed to the producer, never more than `let` allows.

    The limit makes the steps the same on a slow machine: some rows still arrive while the job is stopped.
    """

    def __init__(self, kubectl: Kubectl, topic: str, rate: float, rows: int = FLIGHTS) -> None:
        self._allowed = 0
        self._more = threading.Condition()
        self.kubectl = kubectl
        self.topic = topic
        self.rows = rows
        self.written = 0
        producer = ["kafka.tools.ConsoleProducer", "--bootstrap-server", BROKERS, "--topic", topic, *PATIENT]
        self._source = subprocess.Popen(
            [sys.executable, str(PRODUCE), "--rows", str(rows), "--rate", str(rate)], stdout=subprocess.PIPE
        )
        self._sink = subprocess.Popen(
            kubectl.command("exec", "--stdin", KAFKA, "--", "/opt/kafka/start.sh", *producer),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=kubectl.environment(),
        )
        assert self._source.stdout is not None
        assert self._sink.stdin is not None
        assert self._sink.stderr is not None
        self._said = b""
        self._threads = [
            threading.Thread(target=self._copy, args=(self._source.stdout, self._sink.stdin), daemon=True),
            threading.Thread(target=self._listen, args=(self._sink.stderr,), daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def let(self, rows: int) -> None:
        """Allow this many rows in total."""
        with self._more:
            self._allowed = max(self._allowed, min(rows, self.rows))
            self._more.notify_all()

    def reach(self, rows: int, timeout: float) -> None:
        """Wait until this many rows have been handed to the producer."""
        until(lambda: self._alive() is not None and self.written >= rows, f"{rows:,} rows fed", timeout)

    def finish(self, timeout: float) -> None:
        """Wait until all rows are in the topic, and check their number there.

        :raises Failure: the topic has another number of rows, or one of the processes failed.
        """
        self.let(self.rows)
        until(lambda: not self._alive(), f"all {self.rows:,} rows fed", timeout)
        found = end_offset(self.kubectl, self.topic)
        if found != self.rows:
            said = self._said.decode(errors="replace").strip()
            raise Failure(f"{self.rows:,} rows were sent, topic {self.topic} has {found:,}: {said[-500:]}")

    def stop(self) -> None:
        for process in (self._source, self._sink):
            process.kill()
            process.wait()

    def _alive(self) -> bool:
        """Whether the producer is still running.

        :raises Failure: one of the two processes failed.
        """
        if self._source.poll() or self._sink.poll():
            said = self._said.decode(errors="replace").strip()
            raise Failure(f"feeding Kafka failed after {self.written:,} rows: {said[-500:]}")
        return self._sink.poll() is None

    def _copy(self, source: IO[bytes], sink: IO[bytes]) -> None:
        try:
            for line in source:
                if self.written == self._allowed:
                    sink.flush()
                    with self._more:
                        self._more.wait_for(lambda: self.written < self._allowed)
                sink.write(line)
                self.written += 1
            sink.close()
        except OSError:
            self._source.kill()  # the producer has exited; _alive reports why

    def _listen(self, stream: IO[bytes]) -> None:
        for line in stream:
            self._said = (self._said + line)[-2000:]


def end_offset(kubectl: Kubectl, topic: str) -> int:
    """The number of rows in the topic, over all partitions."""
    shell = ["org.apache.kafka.tools.GetOffsetShell", "--bootstrap-server", BROKERS, "--topic", topic]
    text = kubectl.run("exec", KAFKA, "--", "/opt/kafka/start.sh", *shell)
    return sum(int(line.rsplit(":", 1)[1]) for line in text.split() if line.startswith(topic + ":"))
