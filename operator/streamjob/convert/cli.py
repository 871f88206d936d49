"""The command line `streamjob`, of which `convert` is the command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter, ValidationError

from ..api.types import Location
from .conversion import convert_all
from .draft import Places
from .report import as_json, as_text, as_yaml

DONE, REFUSED, UNREADABLE = 0, 1, 2
EPILOG = """\
exit code:
  0  every SparkApplication is converted; what is to decide or has no counterpart is on stderr
  1  at least one is refused; the others are written
  2  the arguments are wrong, or the input cannot be read: nothing is written

examples:
  kubectl get sparkapplication orders -o yaml | streamjob convert > orders.yaml
  streamjob convert --checkpoints s3a://streams/checkpoints --savepoints s3a://streams/savepoints \\
    --restore orders=s3a://streams/old/orders orders-old.yaml > orders.yaml
"""
_LOCATION: TypeAdapter[str] = TypeAdapter(Location)


class _Loader(yaml.SafeLoader):
    """YAML as the API server has it: a time is a string."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def parser() -> argparse.ArgumentParser:
    """The parser of `streamjob convert`."""
    p = argparse.ArgumentParser(
        prog="streamjob convert",
        description="Writes StreamJobs for the SparkApplications of Kubeflow's Spark operator and of "
        "Apache's: YAML to stdout, and to stderr what has another meaning, what has no counterpart and why, "
        "and what is to decide.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument(
        "files", metavar="FILE", nargs="*", default=["-"], help="YAML or JSON; - or nothing is stdin"
    )
    p.add_argument(
        "--checkpoints", metavar="URI", type=_location, help="spec.storage.checkpoints of each job"
    )
    p.add_argument("--savepoints", metavar="URI", type=_location, help="spec.storage.savepoints of each job")
    p.add_argument(
        "--restore",
        metavar="QUERY=URI",
        type=_query,
        action="append",
        default=[],
        help="an entry of spec.restoreFrom.checkpoints: the checkpoint directory of a query of the old job, "
        "main for a query without a name; repeat it for each query",
    )
    p.add_argument(
        "--json", action="store_true", help="write objects and accounts to stdout as one JSON document"
    )
    return p


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `streamjob`."""
    command, *rest = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    if command != "convert":
        wanted = command in ("-h", "--help")
        print("usage: streamjob convert [-h] …", file=sys.stdout if wanted else sys.stderr)
        return DONE if wanted else UNREADABLE
    return convert(rest)


def convert(arguments: Sequence[str]) -> int:
    """Run `streamjob convert`.

    :returns: the exit code.
    """
    options = parser().parse_args(arguments)
    queries = [query for query, _ in options.restore]
    if twice := next((q for q in queries if queries.count(q) > 1), None):
        print(f"streamjob convert: --restore names the query {twice!r} twice", file=sys.stderr)
        return UNREADABLE
    try:
        documents = [document for file in options.files for document in _read(file)]
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as e:
        print(f"streamjob convert: the input cannot be read: {e}", file=sys.stderr)
        return UNREADABLE
    places = Places(options.checkpoints, options.savepoints, dict(options.restore))
    conversions = list(convert_all(documents, places))
    if not conversions:
        print("streamjob convert: there is no object in the input", file=sys.stderr)
        return UNREADABLE
    if places.restore and sum(bool(c.objects) for c in conversions) > 1:
        print("streamjob convert: --restore is for one SparkApplication at a time", file=sys.stderr)
        return UNREADABLE
    if options.json:
        sys.stdout.write(as_json(conversions))
    else:
        sys.stdout.write(as_yaml(conversions))
        sys.stderr.write(as_text(conversions))
    return REFUSED if any(c.refused for c in conversions) else DONE


def _read(file: str) -> Iterator[Any]:
    text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    yield from yaml.load_all(text, Loader=_Loader)


def _location(uri: str) -> str:
    try:
        return _LOCATION.validate_python(uri)
    except ValidationError as e:
        raise argparse.ArgumentTypeError(e.errors()[0]["msg"].removeprefix("Value error, ")) from None


def _query(text: str) -> tuple[str, str]:
    query, found, uri = text.partition("=")
    if not (query and found):
        raise argparse.ArgumentTypeError("must be QUERY=URI")
    return query, _location(uri)
