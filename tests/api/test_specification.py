"""What requires a new driver, and what of it is only a number."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from streamjob.api import Specification
from streamjob.api.specification import digest, same_attempt
from tests.controller.factories import job


def of(**executor: Any) -> Specification:
    return Specification.of(job(executor=executor).spec)


def test_the_numbers_of_executors_make_no_difference() -> None:
    assert of(instances=1) == of(instances=4)
    assert hash(of(instances=1)) == hash(of(instances=4))
    assert of(dynamicAllocation={"max": 1}) == of(dynamicAllocation={"min": 2, "max": 4})
    assert digest(job(executor={"instances": 1}).spec) == digest(job(executor={"instances": 4}).spec)


@pytest.mark.parametrize(
    "other",
    [
        {},
        {"dynamicAllocation": {"min": 1, "max": 1}},
        {"instances": 1, "cores": 2},
        {"instances": 1, "template": {"spec": {"priorityClassName": "a"}}},
    ],
)
def test_everything_else_does(other: dict[str, Any]) -> None:
    assert of(instances=1) != of(**other)


def test_an_annotation_of_an_earlier_operator_is_what_it_was() -> None:
    """An upgrade of the operator restarts nothing."""
    text = (
        '{"application": {"file": "/app/orders.py"}, "executor": {"instances": 2}, "image": "orders:1", '
        '"runtime": "Image"}'
    )
    assert Specification.parse(text) == of(instances=3)
    assert of(instances=2).text == text


def test_a_digest_of_an_earlier_operator_is_recognized() -> None:
    spec = job(executor={"instances": 2}).spec
    earlier = hashlib.sha256(f"{of(instances=2).text} {spec.restart.nonce}".encode()).hexdigest()[:16]
    assert earlier != digest(spec)
    assert same_attempt(earlier, spec)
    assert same_attempt(digest(spec), spec)
    assert not same_attempt(earlier, job(executor={"instances": 2}, image="orders:2").spec)


def test_a_rollback_keeps_the_number_that_the_spec_asks_for() -> None:
    back = of(instances=1).onto(job(image="orders:2", executor={"instances": 4}).spec)
    assert (back.image, back.executor.instances) == ("orders:1", 4)


def test_unless_the_spec_asks_for_another_way_to_choose_it() -> None:
    back = of(instances=3).onto(job(executor={"dynamicAllocation": {"max": 9}}).spec)
    assert (back.executor.instances, back.executor.dynamic_allocation) == (3, None)
    assert of(instances=3).onto(job().spec).executor.instances == 3
