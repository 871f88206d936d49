"""Reads a job and its index."""

from __future__ import annotations

from ..errors import CommandError
from ..kubectl import JOBS
from ..kubectl_errors import Forbidden
from ..local import folder as local
from ..options import Options
from ..views.checkpoints import Index, index, parsed
from ..views.job import Job, job


class NoSuchFolder(CommandError):
    """The folder holds no job."""

    reason = "NoJobHere"


def read_job(chosen: Options, name: str, *options: str) -> Job:
    """The job.

    :param options: of `kubectl get`.
    :raises NotFound: it does not exist.
    """
    if chosen.local:
        return job(local.resource(read_folder(chosen)))
    return job(chosen.kubectl.get(JOBS, name, *options))


def read_index(chosen: Options, found: Job) -> Index:
    """The index of the job. One that may not be read has a `problem`."""
    if chosen.local:
        text = read_folder(chosen).index
        return parsed(text) if text else index(None)
    try:
        return index(chosen.kubectl.find("configmap", found.index))
    except Forbidden as e:
        return Index(problem=e.message)


def read_folder(chosen: Options) -> local.Folder:
    """The folder of a local job.

    :raises NoSuchFolder: it holds none.
    """
    assert chosen.local is not None
    found = local.read(chosen.local)
    if found is None:
        raise NoSuchFolder(
            f"{chosen.local} holds no job",
            remedy="Name the folder that `python -m streamjob.runtime --local` prints when it starts, by "
            "default .streamjob/SCRIPT",
        )
    return found
