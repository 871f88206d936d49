"""A JVM whose memory is full ends, unless its user says otherwise."""

from __future__ import annotations

import pytest

from streamjob.jvm.full_heap import submit_options


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("", "-XX:+ExitOnOutOfMemoryError"),
        ("-Da=b", "-XX:+ExitOnOutOfMemoryError -Da=b"),
        ("-XX:-ExitOnOutOfMemoryError", "-XX:+ExitOnOutOfMemoryError -XX:-ExitOnOutOfMemoryError"),
        ("-Da=b -XX:+ExitOnOutOfMemoryError", "-Da=b -XX:+ExitOnOutOfMemoryError"),
    ],
)
def test_the_users_own_options_come_last(given: str, expected: str) -> None:
    assert submit_options(given) == expected
