"""The job of dev/bench/app.py in Flink SQL: counts per key and day, whose windows stay open until a drain.

The files are CSV because Flink's reader of Parquet needs Hadoop. A source that watches a folder does not end,
and the watermark does not pass the end of the day.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from dev.bench.flink.cluster import JAVA_17, SLOTS

ROWS = """CREATE TABLE events (k BIGINT, v BIGINT, t TIMESTAMP(3), WATERMARK FOR t AS t - INTERVAL '1' HOUR)
    WITH ('connector' = 'filesystem', 'path' = '{rows}', 'format' = 'csv',
        'source.monitor-interval' = '1 s')"""
COUNTS = "CREATE TABLE counts (k BIGINT, window_start TIMESTAMP(3), n BIGINT) WITH ({sink})"
NOOP = "'connector' = 'blackhole'"
FILES = "'connector' = 'filesystem', 'path' = '{folder}', 'format' = 'csv'"
COUNT = """INSERT INTO counts SELECT k, window_start, COUNT(*)
    FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(t), INTERVAL '1' DAY)) GROUP BY k, window_start, window_end"""


def settings(port: int, checkpoints: Path, savepoint: str | None) -> dict[str, str]:
    """The job's configuration.

    :param port: of the cluster's REST API.
    :param savepoint: folder of the savepoint from which the job resumes.
    """
    resume = {"execution.state-recovery.path": f"file://{savepoint}"} if savepoint else {}
    return {
        "execution.target": "remote",
        "rest.address": "127.0.0.1",
        "rest.port": str(port),
        "parallelism.default": str(SLOTS),
        "state.backend.type": "rocksdb",
        "execution.checkpointing.incremental": "true",
        "execution.checkpointing.interval": "1 s",
        "execution.checkpointing.dir": f"file://{checkpoints}",
        "restart-strategy.type": "disable",  # a failure ends the measurement
        # One phase: rows that are merged before the exchange could not be counted behind it.
        "table.optimizer.agg-phase-strategy": "ONE_PHASE",
        **resume,
    }


def write_rows(file: Path, keys: int) -> None:
    """Write a file with every key once."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w") as out:
        out.writelines(f"{key},{key},2026-01-01 00:00:00\n" for key in range(keys))


class Client:
    """A JVM with Flink's Table API that submits jobs."""

    def __init__(self, gateway: JavaGateway, port: int) -> None:
        self._jvm, self._port = gateway.jvm, port

    def submit(
        self, rows: Path, checkpoints: Path, savepoint: str | None = None, out: Path | None = None
    ) -> str:
        """Submit the job and return its id.

        :param out: folder for the counts as CSV; None for a sink that drops them, as ours.
        """
        flink = self._jvm.org.apache.flink
        configuration = flink.configuration.Configuration()
        for key, value in settings(self._port, checkpoints, savepoint).items():
            configuration.setString(key, value)
        table = flink.table.api
        builder = table.EnvironmentSettings.newInstance().inStreamingMode().withConfiguration(configuration)
        environment = table.TableEnvironment.create(builder.build())
        environment.executeSql(ROWS.format(rows=rows))
        environment.executeSql(COUNTS.format(sink=FILES.format(folder=out) if out else NOOP))
        return str(environment.executeSql(COUNT).getJobClient().get().getJobID().toString())


def counted(out: Path) -> list[tuple[int, int]]:
    """The keys and counts that the job has written and committed. Other files begin with a dot."""
    files = [f for f in out.rglob("*") if f.is_file() and not f.name.startswith(".")]
    lines = [line.split(",") for f in files for line in f.read_text().splitlines()]
    return sorted((int(k), int(n)) for k, _, n in lines)


@contextmanager
def client(jars: list[Path], port: int, home: Path) -> Iterator[Client]:
    """Run a client of the cluster. Its JVM ends with the block, and with this process.

    :param port: of the cluster's REST API.
    """
    (py4j,) = (Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar")
    with (home / "client.log").open("w") as log:
        of_client, token, process = launch_gateway(
            jarpath=str(py4j),
            classpath=":".join(map(str, jars)),
            javaopts=[*JAVA_17, "-Xmx1g", f"-Dlog4j2.configurationFile={home / 'log4j.properties'}"],
            die_on_exit=True,
            redirect_stdout=log,
            redirect_stderr=log,
            enable_auth=True,
            create_new_process_group=True,
            return_proc=True,
        )
        gateway = JavaGateway(gateway_parameters=GatewayParameters(port=of_client, auth_token=token))
        try:
            yield Client(gateway, port)
        finally:
            gateway.shutdown()  # or py4j reports each object that it can no longer release
            process.kill()
            process.wait()
