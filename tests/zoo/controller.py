"""The controller's part for a driver of dev/localdriver.py: each durable checkpoint enters the index."""

from __future__ import annotations

import http.client
import threading
import time

from dev.localdriver import LocalDriver


class Controller(threading.Thread):
    """:ivar up: the driver has answered."""

    def __init__(self, driver: LocalDriver) -> None:
        super().__init__(name="controller", daemon=True)
        self._driver = driver
        self.up = threading.Event()

    def run(self) -> None:
        version, completed = -1, 0
        while self._driver.process.poll() is None:
            try:
                status = self._driver.status(version, timeout=1)
                self.up.set()
                version = status.version
                if status.completed is not None and status.completed.checkpoint > completed:
                    completed = status.completed.checkpoint
                    self._driver.complete(completed)
            except (OSError, http.client.HTTPException, AssertionError):
                time.sleep(0.05)
        self.up.set()
