"""`python -m streamjob.runtime state`: the stores of a savepoint or checkpoint, and their rows."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ....protocol.errors import StreamJobError
from ....storage.hadoop import HadoopFiles
from .read import StateLocation, StateUnreadable, locate, refuse_old_spark, rows, stores

DESCRIPTION = "Shows the state in a savepoint or in a checkpoint directory. Nothing is changed."
EPILOG = """\
URI is a savepoint, of which the files of one task are copied to the local disk first, or the checkpoint
directory of a query, which may run meanwhile.

examples:
  Which operators and stores there are:
    python -m streamjob.runtime state stores file:///data/savepoints/stop-1
  The first rows, and those of one key:
    python -m streamjob.runtime state show file:///data/savepoints/stop-1
    python -m streamjob.runtime state show file:///data/savepoints/stop-1 --key user=anna

exit codes:
  0  done; no rows are an answer, too
  2  the command failed
"""
SETTINGS = {
    "spark.master": "local[1]",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.log.level": "ERROR",
}


def main(arguments: list[str]) -> int:
    """Run the command.

    :returns: the exit code.
    """
    options = parser().parse_args(arguments)
    try:
        refuse_old_spark()
        spark = _session(dict(options.conf))
        try:
            with tempfile.TemporaryDirectory(prefix="streamjob-state-") as scratch:
                return answer(spark, options, scratch)
        finally:
            spark.stop()
    except StreamJobError as e:
        print(f"streamjob: {e}", file=sys.stderr)
        return 2


def answer(spark: SparkSession, options: argparse.Namespace, scratch: str) -> int:
    """Run one command with a session.

    :returns: the exit code.
    :raises StreamJobError: it cannot be done.
    """
    files = HadoopFiles(spark)
    uri = files.qualify(options.uri.rstrip("/") or "/")
    place = locate(files, uri, options.stage, options.task, options.batch, files.qualify(scratch))
    run: Callable[[SparkSession, StateLocation, argparse.Namespace], None] = options.run
    run(spark, place, options)
    return 0


def parser() -> argparse.ArgumentParser:
    shape: Any = argparse.RawDescriptionHelpFormatter
    p = argparse.ArgumentParser(
        prog="python -m streamjob.runtime state",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=shape,
    )
    commands = p.add_subparsers(required=True, metavar="COMMAND")
    for name, run, text in (
        ("stores", _stores, "List operators, their state stores, and the batches that are there"),
        ("show", _show, "Show rows of a state store"),
    ):
        c = commands.add_parser(name, help=text, description=text, epilog=EPILOG, formatter_class=shape)
        c.add_argument("uri", metavar="URI")
        c.add_argument("--stage", metavar="NAME", help="of a savepoint; default: the only one with state")
        c.add_argument("--task", metavar="N", type=int, default=0, help="shard of the stage")
        c.add_argument(
            "--batch", metavar="N", type=int, help="of a checkpoint directory; default: the last one"
        )
        c.add_argument("--json", action="store_true", help="write JSON to standard output")
        c.add_argument(
            "--conf", metavar="KEY=VALUE", type=_pair, action="append", default=[], help="Spark configuration"
        )
        c.set_defaults(run=run)
        if run is _show:
            c.add_argument("--operator", metavar="N", type=int, default=0, help="number of the operator")
            c.add_argument(
                "--store", metavar="NAME", default="default", help="store of the operator, of a join"
            )
            c.add_argument("--variable", metavar="NAME", help="state variable of transformWithState")
            c.add_argument(
                "--key",
                metavar="FIELD=VALUE",
                type=_pair,
                action="append",
                default=[],
                help="rows whose key has this value; repeat it for more fields",
            )
            c.add_argument("--limit", metavar="N", type=int, default=20, help="so many rows at most")
    return p


def _stores(spark: SparkSession, place: StateLocation, options: argparse.Namespace) -> None:
    found = stores(spark, place)
    if options.json:
        print(json.dumps([asdict(s) for s in found], indent=2))
        return
    print(f"{'OPERATOR':<9} {'KIND':<32} {'STORE':<24} {'PARTITIONS':>10} {'BATCHES':>12}")
    for s in found:
        batches = f"{s.first_batch}-{s.last_batch}"
        print(f"{s.operator:<9} {s.name:<32} {s.store:<24} {s.partitions:>10} {batches:>12}")


def _show(spark: SparkSession, place: StateLocation, options: argparse.Namespace) -> None:
    found = list(
        rows(spark, place, options.operator, options.store, options.key, options.limit + 1, options.variable)
    )
    shown = found[: options.limit]
    if options.json:
        print(json.dumps(shown, indent=2, ensure_ascii=False))
    else:
        for row in shown:
            key, value = row.pop("key", None), row.pop("value", None)
            rest = f"  {_compact(row)}" if row else ""
            print(f"{_compact(key)}  {_compact(value)}{rest}")
    if len(found) > len(shown):
        print(f"streamjob: there are more than {options.limit} rows; see --limit and --key", file=sys.stderr)
    elif not found:
        print(f"streamjob: there are no such rows after batch {place.batch}", file=sys.stderr)


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "))


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, value


def _session(conf: dict[str, str]) -> SparkSession:
    if sys.stderr.isatty():
        print("streamjob: starting Spark, about ten seconds", file=sys.stderr)
    builder = SparkSession.builder.appName("streamjob state")
    for key, value in {**SETTINGS, **conf}.items():
        builder = builder.config(key, value)
    try:
        with _unless_it_fails():
            spark = builder.getOrCreate()
    except (PySparkException, Py4JJavaError) as e:
        raise StateUnreadable(
            f"Spark does not start: {str(e).splitlines()[0]}", remedy="Above is what it wrote"
        ) from None
    # It starts the StateStoreCoordinator, to which Spark 4.1's state store reports when it is read.
    _ = spark.streams
    return spark


@contextmanager
def _unless_it_fails() -> Iterator[None]:
    """What is written to standard error, also by Java later, is shown only if there is an error in here.

    Spark greets with several lines, and Java warns of its modules. Errors come as exceptions.
    """
    sys.stderr.flush()
    before = os.dup(2)
    with tempfile.TemporaryFile("w+") as kept:
        os.dup2(kept.fileno(), 2)
        try:
            yield
        except BaseException:
            os.dup2(before, 2)
            kept.seek(0)
            sys.stderr.write(kept.read())
            raise
        finally:
            os.dup2(before, 2)
            os.close(before)
