"""What the end of a script makes it do, told from what follows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from streamjob.runtime.driver.script.job_stopped import is_unwinding


@contextmanager
def resource(seen: list[bool]) -> Iterator[None]:
    try:
        yield
    finally:
        seen.append(is_unwinding())


def test_what_the_end_makes_the_script_do_is_told_from_what_follows_it() -> None:
    seen: list[bool] = []
    try:
        try:
            with resource(seen):
                raise SystemExit
        finally:
            try:
                raise ValueError("of the clean-up")
            except ValueError:
                seen.append(is_unwinding())
            seen.append(any(is_unwinding() for _ in range(1)))
    except SystemExit:
        seen.append(is_unwinding())
    seen.append(is_unwinding())
    try:
        raise ValueError("of another kind")
    except ValueError:
        seen.append(is_unwinding())
    assert seen == [True, True, True, True, False, False]
