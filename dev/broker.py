"""A Kafka broker for tests: one process on free ports of this machine, with its data in its own folder."""

from __future__ import annotations

import socket
import subprocess
import time
from pathlib import Path

import pyspark

from dev import ports
from dev.cluster.layout import cache_folder
from dev.demo.waiting import PATIENCE

JARS = cache_folder() / "jars"  # filled by dev/bootstrap.sh servers
LINE = ".".join(pyspark.__version__.split(".")[:2])
FOR_SPARK = JARS / "spark" if LINE == "4.1" else cache_folder() / "jars-kafka" / LINE
CONNECTORS = ",".join(str(jar) for jar in sorted(FOR_SPARK.glob("*.jar")))  # for spark.jars with this Spark
JDBC = ",".join(
    str(jar) for jar in (JARS / "spark").glob("postgresql-*.jar")
)  # those of the connectors that fit any version of Spark
KAFKA = Path(__file__).parent / "kafka"


class Kafka:
    """A broker that the constructor starts.

    :raises FileNotFoundError: Kafka's jars are missing.
    """

    def __init__(self, folder: Path) -> None:
        if not list((JARS / "kafka").glob("*.jar")):
            raise FileNotFoundError(f"no Kafka in {JARS}: run dev/bootstrap.sh servers")
        folder.mkdir(parents=True)
        self._folder = folder
        port, control = ports.free(kept=True), ports.free(kept=True)
        self.address = f"127.0.0.1:{port}"
        settings = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{control}",
            "listeners": f"HERE://{self.address},CONTROLLER://127.0.0.1:{control}",
            "advertised.listeners": f"HERE://{self.address}",
            "listener.security.protocol.map": "HERE:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "HERE",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": folder / "data",
            "num.partitions": 2,
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
        }
        file = folder / "server.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        identity = ("--cluster-id", "c3RyZWFtam9iLWthZmthMQ", "--config", str(file))
        subprocess.run(
            self._java("kafka.tools.StorageTool", "format", *identity), check=True, capture_output=True
        )
        with (folder / "log").open("w") as log:
            self._process = subprocess.Popen(
                self._java("kafka.Kafka", str(file)), stdout=log, stderr=subprocess.STDOUT
            )
        self._wait(port)

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()

    def _java(self, *words: str) -> list[str]:
        log4j = f"-Dlog4j.configuration=file:{KAFKA / 'log4j.properties'}"
        return ["java", "-Xmx256m", "-XX:+UseSerialGC", log4j, "-cp", f"{JARS}/kafka/*", *words]

    def _wait(self, port: int) -> None:
        deadline = time.monotonic() + PATIENCE
        while self._process.poll() is None and time.monotonic() < deadline:
            with socket.socket() as s:
                if s.connect_ex(("127.0.0.1", port)) == 0:
                    return
            time.sleep(0.1)
        raise RuntimeError(f"Kafka did not start: {(self._folder / 'log').read_text()[-2000:]}")
