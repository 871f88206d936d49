"""The demonstration as a test: Kafka, a driver pod, an executor pod; stopped, resumed, drained; equal to the
batch.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from dev.demo import site, steps
from dev.demo.console import Console
from dev.demo.feed import FLIGHTS

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(2700)]
DEPARTED = 328_521  # of the flights, those that were not cancelled


@pytest.mark.parametrize(
    "stock", [pytest.param(True, id="stock"), pytest.param(False, marks=pytest.mark.slow, id="driver")]
)
def test_drained_output_equals_the_batch(cluster: site.Site, stock: bool) -> None:
    """In an image as Spark's own Dockerfiles make it, with the controller's runtime; and in ours, with its
    own.
    """
    console = Console()
    place = replace(cluster, settings=replace(cluster.settings, stock=stock))
    site.bring_images(place, console)
    steps.clear(place)
    outcome = steps.tell(place, console)
    check = outcome.check
    assert check["equal"], check
    assert check["messages"] == FLIGHTS
    assert check["departures_stream"] == check["departures_batch"] == DEPARTED
    assert check["windows_stream"] == check["windows_batch"]
    assert [check[name] for name in ("missing", "unexpected", "twice", "different")] == [0, 0, 0, 0]
    assert outcome.executors == 1
    assert outcome.arrived_while_stopped > 10_000
    assert (outcome.stopped.epoch, outcome.resumed.epoch, outcome.drained.epoch) == (1, 2, 2)
    assert not outcome.stopped.drained
    assert outcome.drained.drained
    assert outcome.stopped.final_checkpoint == outcome.stopped.checkpoint
    assert outcome.drained.final_checkpoint == outcome.drained.checkpoint == outcome.stopped.checkpoint + 1
    assert outcome.stopped.savepoint != outcome.drained.savepoint
    assert outcome.drained.flushed
