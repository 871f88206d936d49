"""The warm-up of a prepared driver: the last batch of its query runs again, on a copy, into no sink.

The first batch of a JVM takes seconds: classes are loaded, code is compiled. A prepared driver has time for
that before its gate. It may only read the job's directories (ADR 46), so it copies what the batch needs into
a folder of its own, as a savepoint of a running query does, and the query runs there under another id.
"""

from __future__ import annotations

import logging
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql.streaming.readwriter import DataStreamWriter

from ...job import ONLY_QUERY
from ...jvm.errors import one_line
from ...protocol.errors import StreamJobError
from ...protocol.messages.driver_config import DriverConfig
from ...storage.hadoop import HadoopFiles, NotFound
from ...storage.parallel import THREADS, each
from ..savepoints.batch_files import files_of, refuse_outrun
from ..savepoints.layout import content
from ..spark.checkpoint_dir import METADATA, CheckpointDir
from ..spark.engine import Engine
from ..spark.handles import frame_of
from ..spark.sources.plan_sources import sources_of
from ..spark.stream_writer import WriterOptions
from .checks.dry_run import refuse_changed
from .restore_point import root_of

log = logging.getLogger("streamjob")

ROUNDS = 3  # the second and third run code that the JVM has compiled meanwhile
BATCH_LIMIT = 120.0  # seconds for one batch; then the query begins cold
COLD = "%s: not warmed up, its first batch takes longer: %s"
POLL_SECONDS = 0.02  # seconds
READS_ONLY = frozenset({"rate-micro-batch", "delta", "iceberg"})  # beside those that have a `Source.kind`
LARGEST = 4 << 30  # bytes that are copied at most


class NotWarmedUp(Exception):
    """The query begins cold. Nothing else is wrong, so nobody but the log is told."""


def prepare(
    writer: DataStreamWriter, said: WriterOptions, engine: Engine, config: DriverConfig
) -> str | None:
    """Check that a query fits its state, and run its last batch again, ROUNDS times.

    What the job continues from is not known yet: a query without a name is taken for the job's only one. It
    may be another one, so it is not refused here.

    :returns: the URI of the checkpoint directory with whose state the query is known to fit, if any.
    :raises QueryChanged: as `dry_run.refuse_changed`. The running driver has not noticed anything.
    """
    own = said.location or f"{root_of(config, said.name or ONLY_QUERY)}/0"
    directory = CheckpointDir(engine.files, engine.files.qualify(own))
    if (said.name or said.location) and not directory.is_drained():
        refuse_changed(writer, said.mode, directory, engine.internals, fed=None)
    try:
        _refuse_unfit(writer, engine)
        with _scratch(engine.files, config) as scratch:
            batch = copy_last_batch(engine.files, directory, scratch)
            took = [_run(writer, said, engine, scratch, batch) for _ in range(ROUNDS)]
    except (NotWarmedUp, StreamJobError) as e:
        log.info(COLD, directory.uri, e)
    except (Py4JError, PySparkException) as e:
        log.info(COLD, directory.uri, one_line(e))
    else:
        log.info("%s: warmed up, its last batch ran again in %s s", directory.uri, " s, ".join(took))
        return directory.uri
    return None


@contextmanager
def _scratch(files: HadoopFiles, config: DriverConfig) -> Iterator[str]:
    """The URI of a folder that all tasks of this driver reach, and no other driver uses."""
    with tempfile.TemporaryDirectory(prefix="streamjob-warm-up-") as local:
        is_local = str(files.spark.sparkContext.master).startswith("local")
        # Not below the checkpoints: a query may have any name, and its folder has that.
        scratch = f"file:{local}" if is_local else f"{config.checkpoints.rstrip('/')}.warm-up"
        try:
            yield scratch
        finally:
            files.delete(scratch)


def _refuse_unfit(writer: DataStreamWriter, engine: Engine) -> None:
    """Check that nobody notices if the query reads its last batch again.

    :raises NotWarmedUp: a source may do more than read.
    """
    for source in sources_of(writer) or ():
        if source.kind is None and source.name.lower() not in READS_ONLY:
            raise NotWarmedUp(f"reading {source.name} again may not be without effect")
        if source.options.get("cleansource", "off").lower() != "off":
            raise NotWarmedUp("its source deletes or archives the files that it has read")


def copy_last_batch(files: HadoopFiles, directory: CheckpointDir, scratch: str) -> int:
    """Copy what the last committed batch begins from, and its offsets.

    :returns: the number of that batch.
    :raises NotWarmedUp: there is none, or it is too much.
    :raises StreamJobError: the files cannot be copied, or the query was faster than the copy.
    """
    batch = directory.latest_commit()
    if batch is None:
        raise NotWarmedUp("it has no batch yet")
    before = batch - 1 if batch > 0 else None
    listed = [content(files, directory.uri) for _ in range(2)]
    chosen = [f for f in files_of(directory, before, listed) if f.path != METADATA]
    if (size := sum(f.size for f in chosen)) > LARGEST:
        raise NotWarmedUp(f"its state of {size >> 20} MiB is too large to be copied for that")
    files.delete(scratch)

    def copy(path: str) -> None:
        files.copy(f"{directory.uri}/{path}", f"{scratch}/{path}")

    def copy_unless_purged(path: str) -> None:
        with suppress(NotFound):  # since the listing, see `batch_files`
            copy(path)

    copy(f"offsets/{batch}")  # without them, Spark would plan another batch
    paths = [f.path for f in chosen]
    each(copy_unless_purged, paths, THREADS)
    refuse_outrun(directory, before, set(paths))
    # With the id of the running query, each of the two would stop the other.
    CheckpointDir(files, scratch).begin_as(str(uuid.uuid4()))
    return batch


def _run(writer: DataStreamWriter, said: WriterOptions, engine: Engine, scratch: str, batch: int) -> str:
    """Run the batch that the copied log has planned. An earlier round's commit of it is taken back.

    :returns: the seconds that it took.
    :raises NotWarmedUp: it does not end in time.
    :raises PySparkException: it fails.
    """
    engine.files.delete(f"{scratch}/commits/{batch}")
    began = time.monotonic()
    query: Any = engine.internals.start_without_sink(frame_of(writer), said.mode or "append", scratch)
    try:
        while CheckpointDir(engine.files, scratch).latest_commit() != batch:
            if (failed := query.exception()).isDefined():
                raise NotWarmedUp(f"batch {batch} failed: {failed.get().getMessage()}".partition("\n")[0])
            if time.monotonic() > began + BATCH_LIMIT:
                raise NotWarmedUp(f"batch {batch} did not end within {BATCH_LIMIT:.0f} s")
            time.sleep(POLL_SECONDS)
    finally:
        query.stop()
    return f"{time.monotonic() - began:.1f}"
