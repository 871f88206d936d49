"""What went wrong, in one line that a person can do something with."""

from __future__ import annotations

import pytest

from streamjob.jvm.errors import LONGEST, first_line, one_line

UDF = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Task 0 in stage 3.0 failed \
1 times: \
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/app/orders.py", line 31, in <lambda>
    slow = udf(lambda v: 1 // 0)
                         ~~^~~

ZeroDivisionError: integer division or modulo by zero

\tat org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:581)
SQLSTATE: XXKST"""


def test_what_a_function_of_the_script_raised_is_said() -> None:
    said = one_line(RuntimeError(UDF))
    assert said.startswith("[STREAM_FAILED] Query")
    assert said.endswith("ZeroDivisionError: integer division or modulo by zero")


def test_also_when_what_comes_before_is_long() -> None:
    said = first_line("word " * 1000 + ": " + UDF)
    assert said.endswith("word …: ZeroDivisionError: integer division or modulo by zero"), (
        "no word is cut off"
    )
    assert len(said) <= LONGEST + 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\n  first \nsecond", "first"),
        ("", ""),
        ("Traceback (most recent call last):\n  File x\nValueError: boom", "ValueError: boom"),
        ("it says: Traceback (most recent call last):", "it says"),
    ],
)
def test_the_first_line(text: str, expected: str) -> None:
    assert first_line(text) == expected


def test_an_error_without_words_has_its_name() -> None:
    assert one_line(KeyError()) == "KeyError"
