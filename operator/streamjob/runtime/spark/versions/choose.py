"""Chooses the internals for a session: by the table, after a passed probe, or none if the
user allows that.
"""

from __future__ import annotations

import logging
from typing import ClassVar

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from ....protocol.errors import StreamJobError
from ....protocol.messages.driver_status import Problem
from ..internals import Internals
from . import probe
from .table import BY_VERSION, Traits, line, names, refuse_too_old

log = logging.getLogger("streamjob")


class SparkUnknown(StreamJobError):
    """This Spark lacks something that a stop at a boundary, a drain or a check of the query needs."""

    reason: ClassVar[str] = "SparkUnknown"


class Chooser:
    """Remembers what a probe found: a process has one Spark. The caller serializes the calls.

    :param allow_unknown: a Spark that fails the probe is used without internals.
    """

    def __init__(self, *, allow_unknown: bool) -> None:
        self._allow_unknown = allow_unknown
        self._probed: Traits | None = None
        self.warning: Problem | None = None  # set if there are no internals

    def internals(self, spark: SparkSession) -> Internals | None:
        """The internals of a session, None if this Spark fails the probe and the user allows it.

        :raises SparkTooOld: nothing can be done with this Spark.
        :raises SparkUnknown: this Spark fails the probe.
        """
        refuse_too_old(spark.version)
        if self.warning is not None:
            return None
        traits = self._probed or BY_VERSION.get(line(spark.version))
        if traits is not None:
            try:
                return Internals(spark, traits)
            except Py4JError:
                log.warning("Spark %s has other internals than Spark %s", spark.version, line(spark.version))
        try:
            self._probed = probe.probe(spark)
        except probe.Lacking as e:
            missing = f"Spark {spark.version} is not known, and it fails the probe: {e}"
            if not self._allow_unknown:
                raise SparkUnknown(
                    missing,
                    remedy=f"Use one of Spark {names()}, or set spec.allowUnknownSpark to true: a stop then "
                    "interrupts the running batch and runs it again",
                ) from None
            text = f"{missing}; a stop interrupts the running batch and runs it again"
            self.warning = Problem(SparkUnknown.reason, text, f"Use one of Spark {names()}")
            log.warning("%s", text)
            return None
        log.warning("Spark %s is not known, and it has passed the probe", spark.version)
        return Internals(spark, self._probed)
