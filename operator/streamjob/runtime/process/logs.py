"""The driver's own log: lines on stderr, whatever the script does with Python's logging.

The root logger is the script's: its `basicConfig` has to work as under plain Python, which it does only where the root has no
handler yet. And its `dictConfig`, which disables each logger that it does not name, must not silence why a driver ends.
"""

from __future__ import annotations

import logging
import sys

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class OwnLogger(logging.Logger):
    """One that nobody disables."""

    @property
    def disabled(self) -> bool:
        return False

    @disabled.setter
    def disabled(self, value: bool) -> None:
        """The script means its own loggers."""

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802  as in logging
        """Whatever `logging.disable` says."""
        return level >= self.getEffectiveLevel()


def begin() -> None:
    """Once for a process, before the script runs."""
    log = logging.getLogger("streamjob")
    log.__class__ = OwnLogger
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter(FORMAT))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
