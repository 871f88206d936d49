"""A query that has run under plain Spark in a directory that only a setting of the session names."""

from __future__ import annotations

from ....storage.hadoop import HadoopFiles
from ...spark.checkpoint_dir import CheckpointDir
from ..restore_point import NothingToAdopt

SETTING = "spark.sql.streaming.checkpointLocation"


def refuse_ignored(files: HadoopFiles, name: str | None, root: str | None, directory: CheckpointDir) -> None:
    """Check, before a query begins from nothing, that it has no positions where plain Spark would look for
    them: in the folder of its name (ResolveWriteToStream).

    :param root: the value of SETTING; None if it is not set.
    :raises NothingToAdopt: it has. It would read everything again, and write it twice.
    """
    if name is None or not root:
        return
    own = CheckpointDir(files, files.qualify(f"{root.rstrip('/')}/{name}"))
    if own.uri == directory.uri or own.latest_offset() is None:
        return
    raise NothingToAdopt(
        f"query {name!r} would begin from nothing, and has a checkpoint in {own.uri}: {SETTING} names its "
        "folder, which counts for nothing here",
        remedy="To continue it, set the query's option checkpointLocation to that directory, or <adopt>. To "
        "begin from nothing, remove the setting",
    )
