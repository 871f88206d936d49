"""What the last executor died of, in one line."""

from __future__ import annotations

from streamjob.runtime.spark.executors.losses import explained, last_words

# As Spark on Kubernetes words it.
OF_KUBERNETES = """
The executor with id 2 exited with exit code 137(SIGKILL, possible container OOM).


The API gave the following brief reason: N/A
The API gave the following message: N/A
The API gave the following container statuses:


\t container name: executor
\t container state: terminated
\t exit code: 137
\t termination reason: OOMKilled
"""


def test_the_exit_code_comes_first() -> None:
    told = last_words((("1", "Command exited with code 52"), ("2", OF_KUBERNETES)))
    assert told.startswith("executor 2: The executor with id 2 exited with exit code 137(SIGKILL")
    assert "termination reason: OOMKilled" in told
    assert "N/A" not in told
    assert told.endswith("; 1 died before it")
    assert "\n" not in told


def test_executors_that_were_let_go_have_not_died() -> None:
    gone = (("1", "Executor decommission: fewer executors are wanted"), ("2", "Executor killed by driver."))
    assert last_words(gone) == ""
    assert (
        last_words((("3", "Command exited with code 1"), *gone)) == "executor 3: Command exited with code 1"
    )


def test_only_an_end_of_the_context_is_explained() -> None:
    ended = RuntimeError("java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.")
    found = explained(ended, "executor 3: exit code 52")
    assert found is not ended
    assert str(found).startswith(
        "Spark has ended its context after executors had died. The last one: executor 3"
    )
    assert explained(ended, "") is ended
    other = ValueError("no such column")
    assert explained(other, "executor 3: exit code 52") is other
