"""Refuses a Spark that is too old, before anything is imported that such a Spark does not have."""

from __future__ import annotations

import os

import pyspark

from ..spark.versions.table import SparkTooOld, refuse_too_old
from . import config, termination_log


def refuse_old_spark(*, in_pod: bool) -> None:
    """Check the installed pyspark.

    :param in_pod: leave a final report.
    :raises SparkTooOld: it is too old.
    """
    try:
        refuse_too_old(pyspark.__version__)
    except SparkTooOld as e:
        if in_pod:
            place = config.Place.of(os.environ)
            termination_log.write_refusal(config.load(os.environ), e, place.termination_log)
        raise
