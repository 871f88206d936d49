"""Reads a job and its index."""

from __future__ import annotations

from ..kubectl import JOBS
from ..kubectl_errors import Forbidden
from ..local.folder import read_folder, resource
from ..options import Options
from ..views.checkpoints import Index, index, parsed
from ..views.job import Job, job


def read_job(chosen: Options, name: str, *options: str) -> Job:
    """The job.

    :param options: of `kubectl get`.
    :raises NotFound: it does not exist.
    """
    if chosen.local:
        return job(resource(read_folder(chosen.local)))
    return job(chosen.kubectl.get(JOBS, name, *options))


def read_index(chosen: Options, found: Job) -> Index:
    """The index of the job. One that may not be read has a `problem`."""
    if chosen.local:
        text = read_folder(chosen.local).index
        return parsed(text) if text else index(None)
    try:
        return index(chosen.kubectl.find("configmap", found.index))
    except Forbidden as e:
        return Index(problem=e.message)
