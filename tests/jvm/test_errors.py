"""What went wrong, in one line that a person can do something with."""

from __future__ import annotations

import pytest

from streamjob.jvm.errors import LONGEST, first_line, line_with, one_line


def test_what_comes_before_the_cause_may_be_long() -> None:
    said = one_line(RuntimeError("word " * 1000 + "\nCaused by: java.io.IOException: gone"))
    assert said.startswith("IOException: gone (word word"), "the cause comes first"
    assert said.endswith("word …)"), "no word is cut off"


def test_the_cause_of_a_python_exception_is_said() -> None:
    error = RuntimeError("cannot load the rates")
    error.__cause__ = ConnectionRefusedError("[Errno 111] Connection refused")
    assert one_line(error) == (
        "ConnectionRefusedError: [Errno 111] Connection refused (cannot load the rates)"
    )


class Captured(Exception):
    """As pyspark has it: the message, and the stack trace of the JVM."""

    _stackTrace = (
        "org.apache.spark.SparkException: it failed\n\tat org.apache.spark.Foo.bar(Foo.scala:1)\n"
        "Caused by: java.net.ConnectException: broker:9092 refused\n\tat java.net.Socket.open(S.java:1)\n"
    )


def test_the_stack_trace_of_the_jvm_has_the_cause() -> None:
    assert one_line(Captured("it failed")) == "ConnectException: broker:9092 refused (it failed)"
    assert (
        line_with(Captured("it failed"), ("refused",))
        == "Caused by: java.net.ConnectException: broker:9092 refused"
    )


@pytest.mark.parametrize(("text", "expected"), [("\n  first \nsecond", "first"), ("", "")])
def test_the_first_line(text: str, expected: str) -> None:
    assert first_line(text) == expected


def test_a_first_line_is_cut() -> None:
    assert len(first_line("word " * 1000)) == LONGEST


def test_an_error_without_words_has_its_name() -> None:
    assert one_line(KeyError()) == "KeyError"
