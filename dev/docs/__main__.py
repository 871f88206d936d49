"""Generate the pages that come from the code: python -m dev.docs FOLDER.

It imports pyspark, but starts no Spark.
"""

from __future__ import annotations

import sys
from pathlib import Path

from dev.docs import click_commands, command_line, life_cycle, resource
from streamjob.convert.cli import parser as convert_parser
from streamjob.runtime.__main__ import parser as job_parser
from streamjob.runtime.savepoints.cli import parser as savepoint_parser
from streamjob.runtime.savepoints.rows.cli import parser as state_parser


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    pages = {
        "resource": resource.reference(),
        "command-line": commands(),
        "life-cycle": life_cycle.table(),
    }
    for name, text in pages.items():
        (folder / f"{name}.md").write_text(text)


def commands() -> str:
    """The reference of all commands."""
    parsers = (job_parser(), savepoint_parser(), state_parser(), convert_parser())
    return f"{click_commands.reference()}\n{command_line.reference(*parsers)}"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
