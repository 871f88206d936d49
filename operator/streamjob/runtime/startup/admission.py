"""Admits a query: finds what it starts from, and refuses it if it would lose rows or repeat them.

Read ADMISSION from top to bottom: each rule takes the start of the query, and refuses it by raising, warns
its user, or adds what it has found. Everything that can be refused is refused before Spark writes an offset.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable, Iterable

from ...protocol.errors import StreamJobError
from ...protocol.messages.driver_status import Problem
from ...protocol.restore.recovery import Start
from ...protocol.wording import fill
from ...storage.file_systems import canonical
from ..query import driver_state, endpoints
from ..query.places.claim import is_transactional
from ..query.places.owner import owner_of, take
from ..spark import sink_log
from ..spark.checkpoint_dir import CheckpointDir
from ..spark.file_manager import refuse_unfit
from ..spark.handles import frame_of
from ..spark.offset_log import FORMAT
from ..spark.stream_writer import choose_location
from ..spark.tables.find import MissingTable
from .begin_from import begin_from
from .checks import neighbours
from .checks.data_loss import refuse_gone
from .checks.dry_run import compare_sources, refuse_changed
from .checks.file_sink import SinkFolder, StartingQuery, begins_behind, refuse_owned
from .checks.pinned_settings import tell_pinned
from .checks.source_names import refuse_forgotten_names
from .checks.sources import QueryChanged
from .checks.spark_location import SETTING, refuse_ignored
from .checks.spark_version import refuse_newer
from .checks.table_sink import Origin, refuse_gone_table, refuse_unfit_table
from .missing_stages import refuse_renamed
from .naming import refuse_other_query
from .own_disk import warn_of_own_disk
from .own_sink import OwnSink
from .query_start import QueryStart
from .sharding.inherited_transactions import inherit
from .sharding.remaining_splits import begin_behind
from .transactional_sink import transactions_of

log = logging.getLogger("streamjob")

Rule = Callable[[QueryStart], None]


class AsyncProgress(StreamJobError):
    """Asynchronous progress writes offsets and commits late, and not for each batch.

    So the last batch is unknown.
    """

    reason = "AsyncProgressUnsupported"


class ShardLocation(StreamJobError):
    reason = "ShardLocation"


ASYNC_PROGRESS = "asyncprogresstrackingenabled"


def admit(start: QueryStart) -> None:
    """Take the start through ADMISSION.

    :raises StreamJobError: a rule refuses the query, or its checkpoint directory cannot be prepared.
    """
    for rule in ADMISSION:
        rule(start)


def first_run(rule: Rule) -> Rule:
    """A rule for the task's first run in this epoch: another one continues where the one before has ended."""

    @functools.wraps(rule)
    def of_first_run(start: QueryStart) -> None:
        if start.before is None:
            rule(start)

    return of_first_run


# --- the rules ----------------------------------------------------------------------------------------------


def refuse_asynchronous_progress(start: QueryStart) -> None:
    if start.written.options.get(ASYNC_PROGRESS, "").lower() == "true":
        raise AsyncProgress(
            f"query {start.name.name!r} uses asynchronous progress tracking, which does not write down the "
            "end of each batch",
            remedy="Remove the option asyncProgressTrackingEnabled",
        )


def find_restore_point(start: QueryStart) -> None:
    """Whatever is wrong with it is said before a directory is made.

    :raises StreamJobError: as `QueryStart.point`.
    """
    log.debug("stage %s: %s, from %s", start.task, start.plan.start, start.point.folder)


def refuse_other_directory(start: QueryStart) -> None:
    """A shard's directory moves when the parallelism changes. A query that is started again has its own.

    :raises ShardLocation: the script chose one for a shard.
    :raises QueryChanged: the query has run in another one, so it is another query, and nothing would emit the
        last windows of the first one.
    """
    name, before = start.name.name, start.before
    if start.written.location is None:
        return
    if start.sharded is not None:
        raise ShardLocation(
            f"query {name!r} has a checkpointLocation of its own: those of a sharded stage have to move when "
            "its parallelism changes",
            remedy="Remove the option; for runs without the runtime set "
            "spark.sql.streaming.checkpointLocation",
        )
    if before is not None and canonical(before.directory.uri) != canonical(start.place.uri):
        raise QueryChanged(
            f"query {name!r} has run in the checkpoint directory {before.directory.uri} and is started in "
            f"{start.place.uri}: these are two queries with one name",
            remedy="Give each of them a queryName of its own",
        )


def make_directory(start: QueryStart) -> None:
    """None of Spark's errors about an unusable location says who chose it."""
    chosen = start.written.location is not None
    if not chosen:
        choose_location(start.writer, start.place.uri)
    said_by = "the script's checkpointLocation" if chosen else "spec.storage.checkpoints"
    start.files.make_directory(start.place.uri, f"checkpoint directory ({said_by})")


def refuse_directory_of_other_job(start: QueryStart) -> None:
    theirs = start.owner_of_directory
    if theirs is not None and not start.in_place:
        neighbours.refuse_other_job(theirs, start.owner)


def refuse_newer_spark(start: QueryStart) -> None:
    start.warn(*refuse_newer(start.restored or start.directory, start.engine))


def refuse_unfit_storage(start: QueryStart) -> None:
    start.warn(*warn_of_own_disk(start.name.name, start.place.uri, os.environ))
    folders = [start.place.uri, *([start.folder] if start.folder else [])]
    refuse_unfit(start.files.spark, start.engine.internals, start.name.name, *folders)


@first_run
def refuse_unfit_sink_table(start: QueryStart) -> None:
    table = start.table
    if table is None or isinstance(table, MissingTable):
        return
    origin = Origin(start.directory)
    if start.restored is not None and start.plan.record is not None:
        origin = Origin(start.restored, None if start.point.adopted is not None else start.plan.record.batch)
    wrote_here = start.compared_in(origin.directory).wrote_here
    rows = frame_of(start.writer)
    start.warn(
        *refuse_unfit_table(start.name.name, table, start.written, rows, origin, wrote_here=wrote_here)
    )


def bring_directory_to_its_batch(start: QueryStart) -> None:
    """From here on, the directory has what the query continues from."""
    directory, sharded, index = start.directory, start.sharded, start.name.index
    with start.job.carried.lock:
        directory.drop_half_written()
        if sharded is not None and start.before is None:
            sharded.begin(index)
            if start.plan.start is Start.REDISTRIBUTED and sharded.like is not None:
                begin_behind(directory, sharded.like)
        start.beginning, warnings = begin_from(start.point, index, start.plan, directory)
    _note_beginning(start, warnings)


def look_where_it_begins(start: QueryStart) -> None:
    """As `bring_directory_to_its_batch`, of a check. Where nothing has to be copied, `begin_from` writes
    nothing.
    """
    if start.directory is start.place:
        begin_from(start.point, start.name.index, start.plan, start.place)
    _note_beginning(start, ())


def _note_beginning(start: QueryStart, warnings: Iterable[Problem]) -> None:
    start.warn(*warnings)
    start.drained = start.directory.is_drained()
    if start.drained and start.before is None and not (start.finished or start.job.asked_to_end):
        start.warn(_drain_goes_on(start.name.name))


@first_run
def refuse_gone_sink_table(start: QueryStart) -> None:
    committed = start.directory.latest_commit()
    if isinstance(start.table, MissingTable) and committed is not None and start.compared.wrote_here:
        refuse_gone_table(start.name.name, start.table, committed, start.folder)


@first_run
def refuse_other_name(start: QueryStart) -> None:
    """Refuse a query that is another one than its name says.

    :raises NonRestoredState: as `refuse_renamed`.
    :raises NothingToAdopt: as `refuse_ignored`.
    :raises QueryNameMissing: as `refuse_other_query`.
    """
    files, written, uid, now = start.files, start.written, start.uid, start.compared.now
    if start.directory.latest_offset() is None:
        renamed = not start.plan.record and not start.afresh
        missing = [m for m in start.job.missing.uids(files) if m != uid] if renamed else []
        refuse_renamed(files, start.job.points, uid, now, missing)
        if start.sharded is None and written.location is None:
            refuse_ignored(files, written.name, files.spark.conf.get(SETTING, None), start.place)
    if not start.point.is_foreign and written.name is None and written.location is None:
        refuse_other_query(uid, now, start.compared.before)


def refuse_forgotten_source_names(start: QueryStart) -> None:
    forgets = start.engine.internals.traits.forgets_names
    if forgets and reads_on(start) and start.directory.latest_offset() is None:
        refuse_forgotten_names(start.sources or (), start.files.spark.conf.get(FORMAT, None))


def refuse_changed_query(start: QueryStart) -> None:
    """Its next batch need not be planned if the query is known to fit the state."""
    if not reads_on(start):
        return
    fed = None if start.sharded is not None else functools.partial(_moved_along, start)
    if start.before is None and start.fits == start.directory.uri:
        start.warn(*compare_sources(start.writer, start.directory, fed=fed))
    else:
        mode, internals = start.written.mode, start.engine.internals
        start.warn(*refuse_changed(start.writer, mode, start.directory, internals, fed=fed))


def refuse_gone_input(start: QueryStart) -> None:
    if reads_on(start):
        later = _read_on_in(start) if start.before is None else None
        reads, jvm = not start.job.asked_to_end, start.engine.jvm
        start.warn(*refuse_gone(start.directory, start.sources or (), jvm, reads=reads, later=later))


def warn_of_pinned_settings(start: QueryStart) -> None:
    if reads_on(start):
        start.warn(*tell_pinned(start.directory))


def warn_of_moved_sink(start: QueryStart) -> None:
    """In a new folder, the log of the file sink must begin after the batches that are in the old one."""
    before, now = start.compared.before, start.compared.now
    begins = start.before is None and (start.point.is_foreign or start.in_place)
    if begins or start.compared.wrote_here is not False or before is None or now is None:
        return
    text = (
        f"{start.directory.uri}: the output up to batch {start.directory.latest_commit()} is in "
        f"{before.sink}, from now on it comes to {now.sink}"
    )
    start.warn(_warning("SinkMoved", text, "Nothing has to be done if that is meant"))


def find_own_sink(start: QueryStart) -> None:
    """Check the log of a file sink. The folder is taken when the query starts.

    :raises StreamJobError: as `begins_behind` and `refuse_owned`.
    """
    files, directory, commits = start.files, start.directory, is_transactional(start.written)
    at = None if isinstance(start.table, MissingTable) else start.folder  # Spark makes no table in a folder
    if commits and start.shown.sink is not None:
        at = next(iter(start.shown.sink.folders), None)
    if at is None or start.finished:
        return
    tasks = start.point.record.tasks if start.point.record else ()
    origins = frozenset(canonical(task.location) for task in tasks)
    here = False if start.plan.start is Start.REDISTRIBUTED else start.compared.wrote_here
    committed = directory.latest_commit()
    query = StartingQuery(start.owner, origins, directory.latest_offset(), committed, here)
    folder = SinkFolder(
        at,
        sink_log.read(files, at, sink_log.interval(files.spark)),
        owner_of(files, f"{at}/{sink_log.METADATA}"),
        files.exists(f"{at}/{sink_log.TRANSACTIONS}"),
    )
    if commits:
        refuse_owned(folder, query)
        return
    begins_after = committed if begins_behind(folder, query) else None
    start.own_sink = OwnSink(files, folder, start.owner, begins_after)
    if begins_after is not None and here is None:
        text = (
            f"query {start.name.name!r} has output up to batch {begins_after}, and {at} has no log of any: "
            "from now on the output comes there"
        )
        start.warn(_warning("SinkMoved", text, "Nothing has to be done if that is meant"))


def refuse_too_late(start: QueryStart) -> None:
    """A drained stage may start again: it reads nothing."""
    start.job.refuse_start(start.task, start.upstream, drained=start.drained or start.finished)


def find_transactions(start: QueryStart) -> None:
    runs, config = list(start.job.runs.values()), start.job.config
    start.transactions = transactions_of(config, start.name, start.written, runs, start.warn)


def refuse_unfit_neighbours(start: QueryStart) -> None:
    """Whether a stage reads on that feeds one which reads no more, or commits late what another one reads."""
    sources = [run for run in list(start.job.runs.values()) if run.uid in start.upstream]
    neighbours.refuse_transactional_upstream(start, sources, start.readers)
    if start.job.asked_to_end:  # a stage that reads nothing writes nothing that could be missed
        return
    neighbours.refuse_unfinished_before_finished(start, sources, start.readers)
    if start.before is None and not (start.all_finished or start.drained):
        points, started = start.job.points, {run.uid for run in list(start.job.runs.values())}
        past = points.past_readers(start.files, started)
        record = points.checkpoint(start.files) if past else None
        new = record is None or all(stage.uid != start.uid for stage in record.stages)
        neighbours.refuse_before_past_readers(start.uid, start.ends, past, new=new)


@first_run
def warn_of_flushed_reader(start: QueryStart) -> None:
    reader = start.job.flushed_reader(start.task) if start.job.drains else None
    if reader is not None:
        start.warn(neighbours.started_after_flush(start.uid, reader, new=start.new))


def warn_of_socket(start: QueryStart) -> None:
    if start.sockets:
        text = (
            f"query {start.name.name!r} reads from a socket, which nobody can read again: without a "
            "checkpointLocation of its own it begins from nothing at each start, and a drain does not emit "
            "its last windows"
        )
        remedy = "Use a socket for tests only; read files or Kafka instead"
        start.warn(_warning("SourceNotReplayable", text, remedy))


def warn_of_adoption_in_place(start: QueryStart) -> None:
    if start.in_place and start.job.points.names_directory(start.uid):
        text = (
            f"query {start.name.name!r} continues in {start.place.uri} itself, not in a copy: "
            "restoreFrom.checkpoints and the script's checkpointLocation name the same directory, so the "
            "earlier job cannot go on from it"
        )
        start.warn(_warning("AdoptedInPlace", text, "Remove the option from the script to have a copy"))


def keep_driver_state(start: QueryStart) -> None:
    each_batch, assigned = start.written.each_batch, start.plan.state
    start.state_manager = driver_state.keep(start.directory, start.name.name, each_batch, assigned)


def take_directory(start: QueryStart) -> None:
    if start.written.location is None:
        return
    faster = take(start.files, start.place.uri, start.owner, start.owner_of_directory)
    if faster is not None:
        neighbours.refuse_other_job(faster, start.owner)


def note_endpoints(start: QueryStart) -> None:
    if start.compared.now is not None:
        endpoints.note(start.directory, start.compared.now)


def recover_transactions(start: QueryStart) -> None:
    """Commit what the latest checkpoint lists, and abort all others."""
    if start.transactions is None:
        return
    inherit(start.job.config.job, start.name, start.sharded, start.transactions.sink)
    recorded = start.job.recorded_transactions(start.task) if start.before else start.restored_transactions
    start.transactions.recover(start.directory.latest_commit(), recorded)


ADMISSION: tuple[Rule, ...] = (
    refuse_asynchronous_progress,
    # Its checkpoint directory.
    find_restore_point,
    refuse_other_directory,
    make_directory,
    refuse_directory_of_other_job,
    refuse_newer_spark,
    refuse_unfit_storage,
    refuse_unfit_sink_table,
    bring_directory_to_its_batch,
    # The query, compared with what the directory says of it.
    refuse_gone_sink_table,
    refuse_other_name,
    refuse_forgotten_source_names,
    refuse_changed_query,
    refuse_gone_input,
    warn_of_pinned_settings,
    warn_of_moved_sink,
    find_own_sink,
    # The job's other queries.
    refuse_too_late,
    find_transactions,
    refuse_unfit_neighbours,
    warn_of_flushed_reader,
    warn_of_socket,
    warn_of_adoption_in_place,
    keep_driver_state,
    # What is the query's own is written down. From here on, only a failure or a faster query refuses it.
    take_directory,
    note_endpoints,
    recover_transactions,
)
_READS_INSTEAD: dict[Rule, Rule | None] = {
    make_directory: None,
    bring_directory_to_its_batch: look_where_it_begins,
    take_directory: None,
    note_endpoints: None,
    recover_transactions: None,
}
# The same rules without those that write: of a check (ADR 65).
CHECK: tuple[Rule, ...] = tuple(r for rule in ADMISSION if (r := _READS_INSTEAD.get(rule, rule)) is not None)


def reads_on(start: QueryStart) -> bool:
    """Whether the query continues with new batches: it has not finished, and no epoch has begun to fire its
    max watermark.
    """
    return start.plan.start in (Start.NEW, Start.RESUME) and not start.drained


def _moved_along(start: QueryStart, folder: str) -> bool:
    """Whether another stage writes what this query reads, or wrote to `folder`, which it read before."""
    if start.upstream:
        return True
    found = (endpoints.noted(directory) for directory in start.point.directories_of_others())
    at = canonical(folder)
    return any(e is not None and e.sink is not None and e.sink.at == at for e in found)


def _read_on_in(start: QueryStart) -> CheckpointDir | None:
    """The directory from which the savepoint was taken, of which the task has read nothing beyond by itself.

    None if the task does not start from a savepoint, or has already run on.
    """
    record = start.plan.record
    if start.point.savepoint is None or record is None or start.directory.latest_offset() != record.batch:
        return None
    origin = CheckpointDir(start.files, record.location)
    return origin if origin.uri != start.directory.uri else None


def _drain_goes_on(name: str) -> Problem:
    text = (
        f"query {name!r} has begun to emit all its windows, as at its end, and an earlier driver has not "
        "completed that. It cannot be undone: this driver completes it, and reads no new input"
    )
    remedy = fill("To have new input read, <new-job> <and-allow-drained>")
    return _warning("DrainContinues", text, remedy)


def _warning(reason: str, text: str, remedy: str) -> Problem:
    log.warning("%s", text)
    return Problem(reason, text, remedy)
