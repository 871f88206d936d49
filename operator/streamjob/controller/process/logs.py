"""The controller's log: each record is a line of text or a JSON object and names the job that it is about.

No secret is logged: types that hold one do not print it (`Material`, `DriverCredentials`), bodies and headers
are not logged, and `--verbose` affects our own records only, because nobody knows what a library logs at
debug level.
"""

from __future__ import annotations

import json
import logging
import sys
from contextvars import ContextVar
from datetime import datetime, timezone
from typing import Any

JOB: ContextVar[tuple[str, str] | None] = ContextVar("job", default=None)
"""Namespace and name of the job being reconciled. A task inherits it and keeps it when its parent ends."""

FORMATS = ("text", "json")


def configure(form: str, *, verbose: bool) -> None:
    """Set up logging to stderr.

    :param form: one of FORMATS.
    :param verbose: log our own records at debug level.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    logging.basicConfig(handlers=[handler], level=logging.INFO, force=True)
    for noisy in ("kopf", "asyncio", "aiohttp.access"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    logging.getLogger("streamjob").setLevel(logging.DEBUG if verbose else logging.INFO)


class TextFormatter(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(about)s%(message)s")

    def format(self, record: logging.LogRecord) -> str:
        job = JOB.get()
        record.about = f"{job[0]}/{job[1]}: " if job is not None else ""
        return super().format(record)


class JsonFormatter(logging.Formatter):
    """Fields: time, level, logger, message; namespace and job; reason of an Event; exception with its
    traceback.
    """

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, timezone.utc)
        line: dict[str, Any] = {
            "time": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        job = JOB.get()
        if job is not None:
            line |= {"namespace": job[0], "job": job[1]}
        if reason := getattr(record, "reason", None):
            line["reason"] = reason
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)
