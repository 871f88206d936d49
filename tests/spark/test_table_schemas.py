"""A query is refused for its columns only if the real sink does not take them either."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dev.localdriver import FAST
from dev.tables import formats

from .apps import environment
from .lakes import settings

pytestmark = [
    pytest.mark.default_spark,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not formats(), reason="no format exists for this Spark"),
]
# Columns of the table, columns of the query (of v BIGINT and k STRING), and which formats we refuse it for.
CASES: list[tuple[str, list[str], set[str]]] = [
    ("v BIGINT", ["v"], set()),
    ("v BIGINT", ["v", "k"], {"delta", "iceberg"}),
    ("v BIGINT", ["v", "1 AS w"], {"delta", "iceberg"}),
    ("v BIGINT, k STRING", ["v"], set()),
    ("V BIGINT", ["v"], set()),
    ("k STRING, v BIGINT", ["v", "k"], {"iceberg"}),
    ("v BIGINT", ["int(v) v"], set()),
    ("v INT", ["v"], {"iceberg"}),
    ("v BIGINT", ["string(v) v"], {"iceberg"}),
    ("v DATE", ["v"], {"delta", "iceberg"}),
    ("v BIGINT", ["v > 0 AS v"], {"delta", "iceberg"}),
    ("v TIMESTAMP", ["current_date() v"], {"iceberg"}),
    ("v BIGINT", ["struct(v a) v"], {"delta", "iceberg"}),
    ("v STRING", ["array(v) v"], {"delta", "iceberg"}),
    ("v STRUCT<a: BIGINT>", ["struct(v a, v b) v"], {"delta", "iceberg"}),
    ("v STRUCT<a: BIGINT, b: BIGINT>", ["struct(v a) v"], set()),
    ("v ARRAY<STRUCT<a: BIGINT>>", ["array(struct(v a, v b)) v"], {"delta", "iceberg"}),
    ("v BIGINT NOT NULL", ["v"], {"iceberg"}),
]


@pytest.mark.slow
def test_what_is_refused_is_what_the_sink_refuses(tmp_path: Path) -> None:
    cases = [(form, table, query) for form in formats() for table, query, _ in CASES]
    said = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.spark.apps.table_schemas",
            str(tmp_path),
            json.dumps({**FAST, **settings(tmp_path)}),
            json.dumps(cases),
        ],
        env=environment(),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    found = [json.loads(line) for line in said.stdout.splitlines() if line.startswith("{")]
    assert len(found) == len(cases), said.stderr[-3000:]
    assert [case for case in found if case["unfit"] and not case["failed"]] == []
    refused = [(case["format"], case["table"], case["query"]) for case in found if case["unfit"]]
    assert refused == [(form, t, q) for form in formats() for t, q, those in CASES if form in those]
