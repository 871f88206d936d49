"""What a query reads next of a table is gone, or the table is another one: said before anything is written.

What Spark and the formats do by themselves is shown beside it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dev.localdriver import FAST
from dev.tables import LINE, formats

from .apps import environment
from .lakes import settings

pytestmark = [
    pytest.mark.default_spark,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not formats(), reason="no format exists for this Spark"),
]
Found = dict[str, dict[str, Any]]


def found(home: Path, *cases: str) -> Found:
    """What each case has found, by its name (`apps/tables_gone.py`), of the formats of this Spark."""
    those = [case for case in cases if case.partition("_")[0] in formats()]
    given = json.dumps({**FAST, **settings(home)})
    said = subprocess.run(
        [sys.executable, "-m", "tests.spark.apps.tables_gone", str(home), given, *those],
        env=environment(),
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [json.loads(line) for line in said.stdout.splitlines() if line.startswith("{")]
    assert [line["case"] for line in lines] == those, said.stderr[-3000:]
    return {line["case"]: line for line in lines}


# What the message has, what the remedy has, and the rows of plain Spark, or what its error has.
REFUSED: dict[str, tuple[str, str, list[int] | str]] = {
    # Lost in silence.
    "iceberg_created_again": ("it is empty, without snapshot", "Bring the old table back", [0, 1]),
    "iceberg_begun_empty": ("Iceberg would skip their rows", "another queryName", [1]),
    "delta_files_older": (
        "the table ends with version 3, and the query has read version 5",
        "a savepoint from before version 4",
        [0, 1, 2, 3, 4] if LINE == "3.5" else "DELTA_STREAMING_TRAILING_COMMIT_MISSING",
    ),
    # Doubled in silence.
    "delta_restored": ("RESTORE has taken back commits that it has not read", "begin again", [0, 1, 2, 2]),
    # The batch is planned, and fails at each attempt.
    "delta_file_removed": ("1 files that it has not read are gone", "put the files back", "does not exist"),
    "delta_vacuumed": (
        "3 files that it has not read are gone, as after VACUUM",
        "ignoreMissingFiles",
        "does not exist",
    ),
    # An internal error.
    "iceberg_rolled_back": ("is not in the history of the current one", "set_current_snapshot", "parentId()"),
    "iceberg_replaced": ("is not in the history of the current one", "set_current_snapshot", "parentId()"),
    "iceberg_rolled_back_behind_a_planned_batch": (
        "up to which the query reads, is not in the history",
        "a savepoint from before that",
        "INTERNAL_ERROR",
    ),
    "iceberg_expired_in_between": ("has come after snapshot", "a newer savepoint", "not an ancestor"),
    # An error that says so, and a remedy that there is not in a job.
    "delta_log_cleaned": ("begins with version 5: the commits from version 3 on", "failOnDataLoss", "DELTA_"),
    "delta_created_again": ("it is another table: its id is", "another queryName", "DIFFERENT_DELTA_TABLE"),
    "iceberg_expired": ("that has expired", "a newer savepoint", "Cannot load current offset"),
}
ALLOWED = {  # the rows that the job goes on without
    "delta_vacuumed_and_ignored": ("3 files that it has not read are gone", [0, 1]),
    "delta_log_cleaned_and_allowed": ("begins with version 5", [0, 1]),
    "delta_restored_and_allowed": ("RESTORE has taken back commits", [0, 1, 2, 2]),
}
NOTHING = {"delta_vacuumed_what_is_skipped": [0, 1, 2, 3, 4], "iceberg_untouched": [0, 1, 2, 3, 4]}
QUICK = ("iceberg_created_again", "delta_restored", "delta_file_removed", "iceberg_untouched")


def check(home: Path, *names: str) -> None:
    for name, case in found(home, *names).items():
        if name in REFUSED:
            message, remedy, plain = REFUSED[name]
            assert message in case["refused"][0], case
            assert remedy in case["refused"][1], case
        else:
            message, plain = ALLOWED.get(name) or ("", NOTHING[name])
            assert [reason for reason, _ in case["told"]] == ["SourceGone"] * (name in ALLOWED), case
            assert all(message in text for _, text in case["told"]), case
        if isinstance(plain, list):
            assert case["rows"] == plain, case
        else:
            assert plain in case["error"], case


@pytest.mark.slow
def test_what_is_not_read_and_gone(tmp_path: Path) -> None:
    check(tmp_path, *QUICK)


@pytest.mark.slow
def test_what_fails_by_itself_has_a_remedy_and_what_the_script_allows_is_told(tmp_path: Path) -> None:
    check(tmp_path, *(name for name in (*REFUSED, *ALLOWED, *NOTHING) if name not in QUICK))
