"""The command `python -m streamjob.runtime savepoint`: works with savepoints without a job."""

from __future__ import annotations

import argparse
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from typing import Any

from ...jvm.standalone import SmallJvm
from ...protocol.errors import StreamJobError
from ...protocol.formats import codec
from ...storage.hadoop import HadoopFiles
from .adopt import adopt_directories
from .catalog import Deleted, Listed, delete_savepoint, export, list_savepoints
from .describe import Description, TaskDescription, describe_savepoint
from .layout import verify_savepoint

WIDTH = 80  # columns
QUIET = 2.0  # seconds before the first progress line
DESCRIPTION = "Inspect, verify, copy and delete savepoints. No job has to run."
EXAMPLES = """
examples:
  python -m streamjob.runtime savepoint list /data/savepoints
  python -m streamjob.runtime savepoint list s3a://streams/savepoints --json
  python -m streamjob.runtime savepoint describe /data/savepoints/orders/stop-7
  python -m streamjob.runtime savepoint verify /data/savepoints/orders/stop-7
  python -m streamjob.runtime savepoint export \\
      /data/savepoints/orders/stop-7 s3a://archive/orders-stop-7
  python -m streamjob.runtime savepoint delete /data/savepoints/orders/stop-7
  python -m streamjob.runtime savepoint adopt \\
      /data/savepoints/orders/adopted orders=s3a://streams/old/orders

Savepoints in one folder share identical state files. To move one savepoint, use
export; to move all of them, move their folder. delete removes the files that no
other savepoint uses; if it is interrupted, run it again. adopt reads the
checkpoint directories of a job that has ended, and does not change them; name a
query without a name `main`.

A URI may have any scheme for which Spark has a file system. Settings and
credentials come from spark-defaults.conf (SPARK_CONF_DIR), as for a job. Put no
secrets into --conf: `ps` shows them.

exit codes:
  0  all is well
  1  verify or list found a savepoint that cannot be restored
  2  the command failed
"""


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    if sys.stderr.isatty():
        print("streamjob: starting a JVM for Hadoop's file systems, about five seconds", file=sys.stderr)
    try:
        jvm = SmallJvm(dict(options.conf))
    except StreamJobError as e:
        print(f"streamjob: {e}", file=sys.stderr)
        return 2
    try:
        return answer(HadoopFiles(jvm), arguments)
    finally:
        jvm.close()


def answer(files: HadoopFiles, arguments: list[str]) -> int:
    """Run one command.

    :returns: the exit code.
    """
    options = parser().parse_args(arguments)
    try:
        code: int = options.run(files, options)
    except StreamJobError as e:
        print(f"streamjob: {e}", file=sys.stderr)
        return 2
    return code


def parser() -> argparse.ArgumentParser:
    shape: Any = argparse.RawDescriptionHelpFormatter
    p = argparse.ArgumentParser(
        prog="python -m streamjob.runtime savepoint",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=shape,
    )
    commands = p.add_subparsers(required=True, metavar="COMMAND")

    def command(
        name: str, run: Callable[[HadoopFiles, Any], int], text: str, *places: str, many: bool = False
    ) -> None:
        c = commands.add_parser(name, help=text, description=text, epilog=EXAMPLES, formatter_class=shape)
        for place in places[: len(places) - many]:
            c.add_argument(place.lower(), metavar=place)
        if many:
            c.add_argument("pairs", metavar=places[-1], nargs="+", type=_pair)
        c.add_argument("--json", action="store_true", help="write one JSON document to standard output")
        c.add_argument(
            "--conf",
            metavar="KEY=VALUE",
            type=_setting,
            action="append",
            default=[],
            help="Spark configuration, as for spark-submit",
        )
        c.set_defaults(run=run)

    command("list", _list, "List the savepoints in a folder, newest first, and incomplete ones", "ROOT")
    command(
        "describe",
        _describe,
        "Show when, by whom and why a savepoint was taken; its stages, operators, positions and sizes",
        "URI",
    )
    command("verify", _verify, "Read every file and compare it with its hash", "URI")
    command(
        "export",
        _export,
        "Write a self-contained copy of a savepoint, and verify it meanwhile",
        "URI",
        "TARGET",
    )
    command(
        "adopt",
        _adopt,
        "Make a savepoint from the checkpoint directories of a PySpark job that ran without StreamJob",
        "TARGET",
        "QUERY=URI",
        many=True,
    )
    command("delete", _delete, "Delete a savepoint and the files that no other savepoint uses", "URI")
    return p


def _pair(text: str) -> tuple[str, str]:
    query, equals, uri = text.partition("=")
    if not (query and equals and uri):
        raise argparse.ArgumentTypeError(f"{text!r} is not QUERY=URI")
    return query, uri


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.startswith("spark."):
        raise argparse.ArgumentTypeError(f"{text!r} is not spark.KEY=VALUE")
    return key, value


def _list(files: HadoopFiles, options: Any) -> int:
    root = _qualified(files, options.root)
    found = list_savepoints(files, root)
    lines = list(_lines_of_list(root, found)) if found else [f"no savepoints in {root}"]
    _show(options, found, lines)
    return 1 if any(s.problem for s in found) else 0


def _describe(files: HadoopFiles, options: Any) -> int:
    found = describe_savepoint(files, _qualified(files, options.uri))
    _show(options, found, _lines_of(found))
    return 0


def _verify(files: HadoopFiles, options: Any) -> int:
    uri = _qualified(files, options.uri)
    problems = verify_savepoint(files, uri, progress=_after_a_while())
    lines = problems or ["every file is what was written"]
    _show(options, {"uri": uri, "problems": problems}, lines)
    return 1 if problems else 0


def _export(files: HadoopFiles, options: Any) -> int:
    source, target = _qualified(files, options.uri), _qualified(files, options.target)
    copy = export(files, source, target, progress=_after_a_while())
    figures = {"uri": target, "files": len(copy.files), "size": copy.size}
    _show(options, figures, [f"{target}: {len(copy.files)} files, {_bytes(copy.size)}"])
    return 0


def _adopt(files: HadoopFiles, options: Any) -> int:
    target = _qualified(files, options.target)
    found = {query: _qualified(files, uri) for query, uri in options.pairs}
    done = adopt_directories(files, found, target, progress=_after_a_while())
    batches = {s.uid: s.tasks[0].batch for s in done.checkpoint.stages}
    lines = [
        f"{target}: {len(done.files)} files, {_bytes(done.size)}",
        *(f"  query {uid}: up to batch {batch}" for uid, batch in batches.items()),
        "A StreamJob begins with it by:",
        f'  restoreFrom: {{savepoint: "{target}"}}',
    ]
    _show(options, {"uri": target, "files": len(done.files), "size": done.size, "batches": batches}, lines)
    return 0


def _delete(files: HadoopFiles, options: Any) -> int:
    done = delete_savepoint(files, _qualified(files, options.uri))
    _show(options, done, list(_lines_of_deletion(done)))
    return 0


def _lines_of_list(root: str, found: list[Listed]) -> Iterator[str]:
    yield f"{'SAVEPOINT':31} {'AT (UTC)':17} {'WHY':10} {'SIZE':>9} {'OWN':>9}"
    for s in found:
        name = s.uri.removeprefix(f"{root}/")
        if len(name) > 31:
            yield name
            name = ""
        at = (s.at or "").replace("T", " ")[:16]
        if s.problem is None:
            yield f"{name:31} {at:17} {s.why or '':10} {_bytes(s.size or 0):>9} {_bytes(s.own or 0):>9}"
        else:
            first, *more = textwrap.wrap(s.problem, WIDTH - 51)
            yield f"{name:31} {at:17} {first}"
            yield from (f"{'':49} {line}" for line in more)


def _lines_of(found: Description) -> list[str]:
    job = found.job
    shared = f", {_bytes(found.shared)} of them shared" if found.shared else ", stands alone"
    lines = [
        found.uri,
        f"job          {job.namespace}/{job.name} ({job.uid})"
        if job.uid
        else "job          none, it was adopted",
        f"completed    {found.completed_at}, checkpoint {found.checkpoint}, epoch {found.epoch}",
        f"why          {found.why}, asked for by {found.by_whom or 'nobody'}"
        + (f" ({found.request_id})" if found.request_id else ""),
        f"ended        {_ended(found)}",
        f"holds        {found.files} files, {_bytes(found.size)}{shared}",
        f"written by   Spark {found.spark}, format version {found.version}",
    ]
    for stage in found.stages:
        lines += ["", f"stage {stage.uid} ({stage.status.value})"]
        for o in stage.operators:
            lines.append(f"  {o.uid:12} {o.name:31} {'finished' if o.finished else ''}".rstrip())
        for task in stage.tasks:
            lines += _lines_of_task(task)
    return lines


def _lines_of_task(task: TaskDescription) -> Iterator[str]:
    flag = ", finished" if task.finished else ""
    yield f"  task {task.index}: " + ("no batch" if task.batch is None else f"batch {task.batch}") + flag
    if task.max_watermark:
        yield "    watermark  the maximum: every timer has fired"
    elif task.watermark is not None:
        yield (
            f"    watermark  {datetime.fromtimestamp(task.watermark / 1000, timezone.utc):%Y-%m-%d %H:%M:%S} "
            "UTC"
        )
    if task.sources is None and task.batch is not None:
        yield "    sources    the offset log cannot be read: see verify"
    for i, place in enumerate(task.reads):
        yield from _wrapped(f"    reads-{i:<5} ", place)
    if task.writes is not None:
        yield from _wrapped("    writes      ", task.writes)
    if task.table is not None:
        yield from _wrapped("    table       ", task.table)
    for key, position in (task.sources or {}).items():
        yield from _wrapped(f"    source-{key:<3} ", position or "nothing")
    for operator, size in sorted(task.state_size.items()):
        yield f"    state-{operator:<4} {_bytes(size)}"


def _wrapped(label: str, text: str) -> Iterator[str]:
    first, *more = textwrap.wrap(text, WIDTH - len(label)) or [""]
    yield f"{label}{first}"
    yield from (f"{'':{len(label)}}{line}" for line in more)


def _lines_of_deletion(done: Deleted) -> Iterator[str]:
    what = f"{done.files} files deleted" if done.files else "was not there any more"
    yield f"{done.uri}: {what}"
    if done.shared.kept_for is None:
        yield f"shared files that nobody had: {done.shared.files} deleted, {_bytes(done.shared.size)}"
    else:
        yield from textwrap.wrap(f"shared files are kept: {done.shared.kept_for}. Then delete again.", WIDTH)


def _show(options: Any, document: Any, lines: list[str]) -> None:
    print(codec.dumps(document, indent=2) if options.json else "\n".join(lines))


def _after_a_while() -> Callable[[str], None]:
    began = time.monotonic()

    def say(text: str) -> None:
        if time.monotonic() - began >= QUIET:
            print(f"streamjob: {text}", file=sys.stderr, flush=True)

    return say


def _qualified(files: HadoopFiles, uri: str) -> str:
    return files.qualify(uri.rstrip("/") or "/")


def _ended(found: Description) -> str:
    left = ", an end: nothing is left to resume" if found.drained else ""
    if found.scenario is not None:
        return f"the job: {found.scenario}{left}"
    if not found.job.uid:
        return "nothing"
    return f"nothing, the job {'had ended' if found.drained else 'ran on'}{left}"


def _bytes(size: int) -> str:
    amount, unit = float(size), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if amount < 1024 or unit == "TiB":
            break
        amount /= 1024
    return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
