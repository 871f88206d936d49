"""The folder of a local job. Standard library and protocol only.

DIR/checkpoints     the queries' checkpoint directories
DIR/savepoints      one folder per stop and per drain
DIR/index.json      the index, as in the job's ConfigMap; a checkpoint completes when it is recorded here
DIR/restore.json    what the job was to begin from, until it has a checkpoint of its own
DIR/epoch           the number of the last epoch in which a query was admitted
DIR/lock            locked while a process runs the job; the number of that process
DIR/status.json     the driver's status, as it was last; `streamjob status --local DIR` shows it
DIR/config.json     the configuration of the last attempt, for people to see
"""

from __future__ import annotations

import fcntl
import os
import time
import uuid
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import IO

from ....protocol.errors import FormatError, StreamJobError
from ....protocol.formats import codec
from ....protocol.formats import index as indices
from ....protocol.formats.index import Index
from ....protocol.messages.driver_config import DriverConfig, Restore
from ....protocol.messages.driver_status import DriverStatus
from ....storage.local_disk import uri_of

LOCK_SECONDS = 0.1  # whoever looks at the folder holds the lock for some microseconds


class StateInUse(StreamJobError):
    """Another process runs the job in this folder. Two drivers would overwrite each other's files."""

    reason = "StateInUse"


class JobFolder:
    """The folder (DIR) of a job."""

    def __init__(self, folder: Path) -> None:
        # Hadoop takes `LINK/..` for the folder of the link, the operating system for that of its target.
        self.folder = folder.resolve() if ".." in folder.parts else folder.absolute()
        self._lock: IO[str] | None = None

    def uri(self, *parts: str) -> str:
        return uri_of(self.folder.joinpath(*parts))

    def index(self) -> Index:
        """The index; an empty one with a new job uid if there is none.

        :raises FormatError: it cannot be read, or has a newer version.
        """
        path = self.folder / "index.json"
        if not path.exists():
            return indices.empty(str(uuid.uuid4()))
        return indices.loads(path.read_text(), str(path))

    def write_index(self, index: Index) -> None:
        self._write("index.json", indices.dumps(index))

    def origin(self) -> Restore | None:
        """What the queries of an earlier attempt have begun from; None if none has begun, or from nothing.

        :raises FormatError: it cannot be read.
        """
        path, checkpoints = self.folder / "restore.json", self.folder / "checkpoints"
        if not path.exists() or not checkpoints.is_dir() or not any(checkpoints.iterdir()):
            return None
        return codec.loads(Restore, path.read_text())

    def write_origin(self, begin: Restore) -> None:
        """Note it before the first query begins."""
        if begin.savepoint is not None:
            self._write("restore.json", codec.dumps(begin))

    def next_epoch(self) -> int:
        """The epoch that begins next. An attempt that was refused before its first query does not count."""
        path = self.folder / "epoch"
        return int(path.read_text()) + 1 if path.exists() else 1

    def begin(self, epoch: int) -> None:
        """Note that the epoch begins: from now on its queries may change the checkpoint directories."""
        self._write("epoch", str(epoch))

    def lock(self) -> None:
        """Lock the folder for the life of this process.

        :raises StateInUse: another process has locked it.
        """
        if not self.try_lock():
            time.sleep(LOCK_SECONDS)
            if not self.try_lock():
                raise StateInUse(
                    f"another process runs the job in {self.folder}",
                    remedy="End it, choose another --state, or let this one take over with --handover",
                )

    def try_lock(self) -> bool:
        """Lock the folder for the life of this process, unless another process has."""
        if self._lock is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = (self.folder / "lock").open("a+")  # what the holder has written stays
        if not _locked(self._lock):
            return False
        self._lock.truncate(0)
        self._lock.write(str(os.getpid()))
        self._lock.flush()
        return True

    def holder(self) -> int | None:
        """The process that holds the lock, or held it last. None while it writes its number."""
        text = (self.folder / "lock").read_text()
        return int(text) if text.isdigit() else None

    def status(self) -> DriverStatus | None:
        """The driver's status, as it was last written; None if that cannot be read."""
        try:
            return codec.loads(DriverStatus, (self.folder / "status.json").read_text())
        except (OSError, FormatError):
            return None

    def write_status(self, status: DriverStatus) -> None:
        self._show("status.json", codec.dumps(status))

    def write_config(self, settings: DriverConfig) -> None:
        """The configuration without what the index has."""
        self._show("config.json", codec.dumps(replace(settings, restore=Restore())))

    def _show(self, name: str, text: str) -> None:
        """For people to see. Readers find the old text or the new one; a crash may lose it."""
        temporary = self.folder / f".{name}.tmp"
        with suppress(OSError):
            temporary.write_text(text)
            temporary.replace(self.folder / name)

    def _write(self, name: str, text: str) -> None:
        """Write a file atomically and durably: a checkpoint in the index must survive a crash."""
        temporary = self.folder / f".{name}.tmp"
        with temporary.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.folder / name)


def _locked(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
