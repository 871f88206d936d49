"""Checks many scripts in one process, which has one JVM, and prints their reports, one a line.

The argument is a file with the arguments of each check.
"""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from streamjob.protocol.errors import StreamJobError
from streamjob.protocol.formats import codec
from streamjob.protocol.messages.check_report import Report
from streamjob.protocol.wording import speak_of_laptop
from streamjob.runtime.process import config, patch_pyspark
from streamjob.runtime.process.check import Checking, found, on_laptop, parser


class Current:
    """What pyspark is patched with: the check that runs."""

    checking: Checking

    def __getattr__(self, name: str) -> Any:
        return getattr(self.checking.driver, name)


def main(out: int, options: list[list[str]]) -> None:
    current: Any = Current()
    speak_of_laptop()
    config.adopt_spark_properties(config.of_laptop(), None)
    for number, given in enumerate(options):
        reports: list[Report] = []

        def leave(report: Report, reports: list[Report] = reports) -> None:
            reports.append(report)
            raise SystemExit

        began = time.monotonic()
        try:
            settings, against = on_laptop(parser().parse_args(given))
        except StreamJobError as e:
            reports.append(replace(Report(given[-1], ""), **found(e)))
        else:
            current.checking = Checking(settings, Report(given[-1], against), leave)
            if number == 0:
                patch_pyspark.install(current)
            with suppress(SystemExit):
                current.checking.run(settings.application.file)
        plain = codec.to_plain(reports[0]) | {"code": reports[0].code, "took": time.monotonic() - began}
        os.write(out, f"{json.dumps(plain)}\n".encode())


if __name__ == "__main__":
    report = os.dup(1)
    os.dup2(2, 1)
    main(report, json.loads(Path(sys.argv[1]).read_text()))
    os._exit(0)
