"""The driver's own log: lines on stderr, whatever the script does with Python's logging.

The root logger belongs to the script, so this module adds no handler to it: `basicConfig` works only while
the root logger has none. The script's `dictConfig` disables every logger that it does not name; it must not
silence the driver's log, which says why the driver exits.
"""

from __future__ import annotations

import logging
import sys

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class OwnLogger(logging.Logger):
    """A logger that cannot be disabled."""

    @property
    def disabled(self) -> bool:
        return False

    @disabled.setter
    def disabled(self, value: bool) -> None:
        """Do nothing: the script means to disable its own loggers."""

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802  as in logging
        """Ignore `logging.disable`."""
        return level >= self.getEffectiveLevel()


def begin() -> None:
    """Set up the driver's log. Call once per process, before the script runs."""
    log = logging.getLogger("streamjob")
    log.__class__ = OwnLogger
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter(FORMAT))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
