"""The Spark jobs of the script's SparkContext."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from pyspark import SparkContext

log = logging.getLogger("streamjob")


def running() -> list[int]:
    """The ids of the jobs that run now; none if there is no SparkContext, or it does not answer."""
    context = SparkContext._active_spark_context
    try:
        return [] if context is None else list(context.statusTracker().getActiveJobsIds())
    except Exception as e:  # it is being stopped, or the JVM is gone
        log.debug("the running jobs are not known: %r", e)
        return []


def cancel(jobs: Iterable[int]) -> None:
    """Cancel these jobs. Those that are over are left alone."""
    context: Any = SparkContext._active_spark_context
    try:
        for job in jobs:
            context._jsc.sc().cancelJob(job)
    except Exception as e:  # as above
        log.debug("a job is not cancelled: %r", e)
