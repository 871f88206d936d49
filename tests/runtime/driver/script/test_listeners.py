"""What a script's listeners are told, and when."""

from __future__ import annotations

import threading

from streamjob.runtime.driver.script.listeners import Listeners


def test_an_end_of_its_own_is_told_at_once() -> None:
    heard: list[str] = []
    listeners = Listeners(lambda: False)
    listeners.query_terminated(lambda: heard.append("a"))
    assert heard == ["a"]


def test_what_the_job_ends_is_told_when_that_is_released_in_order() -> None:
    heard: list[str] = []
    listeners = Listeners(lambda: True)
    for name in "abc":
        listeners.query_terminated(lambda name=name: heard.append(name))
    assert heard == []
    listeners.release()
    listeners.release()
    assert listeners.all_told(60)
    listeners.query_terminated(lambda: heard.append("d"))
    assert heard == ["a", "b", "c", "d"]


def test_one_that_comes_while_others_are_told_comes_after_them() -> None:
    heard: list[str] = []
    listeners, goes_on = Listeners(lambda: True), threading.Event()
    listeners.query_terminated(lambda: (goes_on.wait(60), heard.append("a")))
    listeners.release()
    listeners.query_terminated(lambda: heard.append("b"))
    assert not listeners.all_told(0)
    goes_on.set()
    assert listeners.all_told(60)
    assert heard == ["a", "b"]


def test_a_listener_that_fails_takes_nothing_from_the_others() -> None:
    heard: list[str] = []

    def leaves() -> None:
        raise SystemExit(1)

    listeners = Listeners(lambda: True)
    listeners.query_terminated(leaves)
    listeners.query_terminated(lambda: heard.append("b"))
    listeners.release()
    assert listeners.all_told(60)
    assert heard == ["b"]
