"""Queries without names across epochs: each continues its own state, or starts as new, or is refused."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from pyspark.sql import SparkSession

from dev.localdriver import LocalDriver
from streamjob.protocol.messages.commands import Mode
from streamjob.protocol.messages.driver_status import Problem

from .feeds import Feed, eventually
from .scripts import HEAD, Script, await_said, files_below

pytestmark = pytest.mark.any_spark
NOW = "{'availableNow': True}"

# `inner` is made by each batch; WRITE is its body, RUN starts it.
NESTED = f"""
class Sink:
    def __init__(self, path):
        self.path = path

    def write(self, frame, number):
        frame.write.mode("append").json(self.path)


SINK = Sink(f"{{home}}/out/all")


def load(frame, batch):
    frame.write.mode("overwrite").json(f"{{home}}/stage/b={{batch}}")

    def inner(rows, number):
        rows.write.mode("append").json(f"{{home}}/out/{{batch}}")

    inner = FUNCTION
    read("stage/*").writeStream.foreachBatch(inner).trigger(**{NOW}).start().awaitTermination()
    say("loaded", batch)


read("in").writeStream.queryName("outer").foreachBatch(load).trigger(**OFTEN).start().awaitTermination()
"""


def two_epochs(script: Script, before: int, after: int, *args: str, edited: str | None = None) -> LocalDriver:
    """Run the batches before a stop, and those after it in the next driver.

    :param edited: the script of the second driver.
    :returns: the second driver, which still runs.
    """
    for minute in range(before):
        script.feed.minutes(minute, minute + 1)
    with script.driver(*args) as driver:
        await_said(driver, f"loaded {before - 1}")
        driver.finish(Mode.STOP)
    if edited is not None:
        script.file.write_text(edited)
    for minute in range(before, before + after):
        script.feed.minutes(minute, minute + 1)
    return script.next(driver, *args)


def warned(driver: LocalDriver, reason: str = "QueryWithoutName") -> list[Problem]:
    return [w for w in driver.status().warnings if w.reason == reason]


def test_a_batch_s_unnamed_query_whose_closure_differs_does_not_take_over_another_s_state(
    spark: SparkSession, tmp_path: Path
) -> None:
    """As within an epoch, and as under Python: each of them reads all of its input."""
    script = Script(tmp_path, NESTED.replace("FUNCTION", "inner"))
    with two_epochs(script, 2, 1) as driver:
        await_said(driver, "loaded 2")
        (warning,) = warned(driver)
        assert "'main', 'main-2'" in warning.message
        driver.finish(Mode.STOP)
    found = {batch: script.values(spark, f"out/{batch}") for batch in range(3)}
    assert found == {0: [0], 1: [0, 1], 2: [0, 1, 2]}


@pytest.mark.parametrize(
    "function",
    [
        pytest.param("SINK.write", id="of an object"),
        pytest.param("into('out/fixed')", id="plain values", marks=pytest.mark.slow),
    ],
)
def test_a_batch_s_unnamed_query_that_is_the_same_continues(
    spark: SparkSession, tmp_path: Path, function: str
) -> None:
    """An object of the script is the same in each batch, which the second batch of an epoch proves."""
    script = Script(tmp_path, NESTED.replace("FUNCTION", function))
    with two_epochs(script, 2, 1) as driver:
        await_said(driver, "loaded 2")
        assert warned(driver) == []
        driver.finish(Mode.STOP)
    assert [s.uid for s in driver.record.stages] == ["outer", "main"]  # type: ignore[union-attr]
    if function == "SINK.write":
        assert script.values(spark, "out") == [0, 1, 2]


def test_a_batch_s_unnamed_query_that_may_be_another_one_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    """After one batch nobody can tell whether the next one makes a function of its own."""
    script = Script(tmp_path, NESTED.replace("FUNCTION", "Sink(f'{home}/out/{batch}').write"))
    with two_epochs(script, 1, 1) as driver:
        assert driver.wait() == 1
    problem = driver.report().problem
    assert problem is not None
    assert "may be the one that began as 'main'" in problem.message
    assert script.values(spark, "out") == [0]


def unnamed(**inputs: str) -> str:
    """A script that runs unnamed queries side by side: what each writes, and the input that it reads."""
    starts = [
        f'read("{folder}").writeStream.foreachBatch(into("{name}")).trigger(**OFTEN).start()'
        for name, folder in inputs.items()
    ]
    return HEAD + "\n".join(starts) + "\nspark.streams.awaitAnyTermination()\n"


def batches(script: Script, name: str) -> int:
    return len(list((script.home / name).glob("*/_SUCCESS")))


def run_until(script: Script, driver: LocalDriver, number: int, *names: str) -> None:
    """Wait until each of the queries has written so many batches."""

    def written() -> bool:
        return all(batches(script, name) >= number for name in names)

    eventually(lambda: written() or driver.process.poll() is not None, f"{number} batches of {names}")
    assert written(), driver.tail()


def stopped(script: Script, **inputs: str) -> LocalDriver:
    """A driver that has run these queries and was stopped."""
    script.file.write_text(unnamed(**inputs))
    with script.driver() as driver:
        run_until(script, driver, 1, *inputs)
        driver.finish(Mode.STOP)
    return driver


def refused(driver: LocalDriver) -> str:
    """The reason of a driver that refuses its script."""
    with driver:
        assert driver.wait() == 1, driver.tail()
    problem = driver.report().problem
    return problem.reason if problem is not None else ""


@pytest.fixture
def script(tmp_path: Path) -> Script:
    made = Script(tmp_path, "")
    made.feed.minutes(0, 1)
    return made


@pytest.fixture
def other(tmp_path: Path) -> Feed:
    """The folder `other`, a second input."""
    made = Feed(tmp_path / "other")
    made.minutes(0, 1)
    return made


@pytest.mark.parametrize("how", [pytest.param("stopped", marks=pytest.mark.slow), "killed"])
def test_unnamed_queries_continue_their_own_state_in_whatever_order_they_start(
    spark: SparkSession, script: Script, other: Feed, how: str
) -> None:
    """Also if the driver died before its first checkpoint."""
    script.file.write_text(unnamed(archive="in", report="other"))
    with script.driver() as driver:
        run_until(script, driver, 1, "archive", "report")
        if how == "stopped":
            driver.finish(Mode.STOP)
    script.feed.minutes(1, 2)
    other.minutes(1, 2)
    script.file.write_text(unnamed(report="other", archive="in"))
    with script.next(driver) as driver:
        run_until(script, driver, 2, "archive", "report")
        assert warned(driver) == []
        driver.finish(Mode.STOP)
    assert script.values(spark, "archive") == script.values(spark, "report") == [0, 1]


@pytest.mark.slow
def test_the_only_unnamed_query_continues_when_it_was_edited_and_a_warning_says_so(
    spark: SparkSession, script: Script
) -> None:
    before = stopped(script, archive="in")
    script.feed.minutes(1, 2)
    script.file.write_text(unnamed(moved="in"))
    with script.next(before) as driver:
        run_until(script, driver, 1, "moved")
        assert len(warned(driver)) == 1
        driver.finish(Mode.STOP)
    assert (script.values(spark, "archive"), script.values(spark, "moved")) == ([0], [1])


# The new unnamed query comes first, so it could be the old one, edited.
NEWCOMERS = {
    "at once": """
        begin("another", {'availableNow': True})
        old()
        spark.streams.awaitAnyTermination()
        """,
    "while a thread waits": """
        started = threading.Event()

        def wait():
            another = begin("another")
            started.set()
            another.awaitTermination()

        threading.Thread(target=wait, daemon=True).start()
        started.wait()
        time.sleep(1) # until it waits
        old()
        spark.streams.awaitAnyTermination()
        """,
    "and the script goes on": """
        another = begin("another")
        try:
            old()
        except Exception as e:
            print(e)
        another.awaitTermination()
        """,
}


def newcomer(case: str, *, name: str | None = None) -> str:
    named = f'.queryName("{name}")' if name else ""
    functions = f"""
def begin(name, how=OFTEN):
    writer = read("in").writeStream.foreachBatch(into(name)).trigger(**how)
    return (writer.queryName(name) if {name == "main"} else writer).start()


def old():
    read("in").writeStream{named}.foreachBatch(into("archive")).trigger(**OFTEN).start()


"""
    return HEAD + functions + dedent(NEWCOMERS[case])


@pytest.mark.parametrize(
    "case", [c if c == "while a thread waits" else pytest.param(c, marks=pytest.mark.slow) for c in NEWCOMERS]
)
def test_a_new_query_that_could_be_another_one_reads_nothing_before_that_is_refused(
    spark: SparkSession, script: Script, case: str
) -> None:
    """With the remedy of the refusal, each of them reads all of its input."""
    before = stopped(script, archive="in")
    script.feed.minutes(1, 2)
    script.file.write_text(newcomer(case))
    failed = script.next(before)
    assert refused(failed) == "QueryNameMissing"
    assert not files_below(script.home / "another")
    script.file.write_text(newcomer("at once", name="main"))
    with script.next(failed) as driver:
        run_until(script, driver, 2, "archive", "another")
        driver.finish(Mode.STOP)
    assert script.values(spark, "archive") == script.values(spark, "another") == [0, 1]


@pytest.mark.slow
def test_a_named_query_that_reads_and_writes_what_an_edited_one_may_continue_is_refused(
    script: Script,
) -> None:
    before = stopped(script, archive="in")
    script.feed.minutes(1, 2)
    script.file.write_text(newcomer("at once", name="archive"))
    assert refused(script.next(before)) == "StateWithoutStage"
    assert not files_below(script.home / "another")


WAITS = {
    "processAllAvailable": "query.processAllAvailable()",
    "a timeout": "query.awaitTermination(600)",
    "any, with a timeout": "spark.streams.awaitAnyTermination(600)",
    "its end": "spark.streams.get(query.id).awaitTermination()",
    "the end of the script": "",
}
QUICK = ("processAllAvailable", "its end")


@pytest.mark.parametrize(
    "wait", [pytest.param(w, id=i, marks=[] if i in QUICK else pytest.mark.slow) for i, w in WAITS.items()]
)
def test_an_edited_query_begins_when_the_script_waits(script: Script, wait: str) -> None:
    before = stopped(script, archive="in")
    script.feed.minutes(1, 2)
    end = "spark.streams.awaitAnyTermination()"
    edited = unnamed(moved="in")
    script.file.write_text(
        edited.replace("\nread", "\nquery = read").replace(end, f"say(query.status)\n{wait}")
    )
    with script.next(before) as driver:
        run_until(script, driver, 1, "moved")
        driver.finish(Mode.STOP)
    script.feed.minutes(2, 3)
    with script.next(driver) as again:  # it is the same query by now
        run_until(script, again, 2, "moved")
        assert warned(again) == []
        again.finish(Mode.STOP)


@pytest.mark.slow
def test_an_edited_query_begins_when_the_script_has_started_none_for_a_while(script: Script) -> None:
    before = stopped(script, archive="in")
    script.feed.minutes(1, 2)
    end = "spark.streams.awaitAnyTermination()"
    script.file.write_text(
        unnamed(moved="in").replace(end, "while spark.streams.active:\n    time.sleep(0.1)")
    )
    with script.next(before) as driver:
        run_until(script, driver, 1, "moved")
        driver.finish(Mode.STOP)


def test_a_stop_before_an_edited_query_begins_leaves_the_state_as_it_is(
    spark: SparkSession, script: Script
) -> None:
    before = stopped(script, archive="in")
    script.feed.minutes(1, 2)
    edited = unnamed(moved="in").replace(
        "spark.streams.awaitAnyTermination()", "say('polls')\ntime.sleep(999)"
    )
    script.file.write_text(edited)
    with script.next(before) as driver:
        await_said(driver, "polls")
        driver.finish(Mode.STOP)
    assert not files_below(script.home / "moved")
    script.file.write_text(unnamed(archive="in"))
    with script.next(driver) as driver:
        run_until(script, driver, 2, "archive")
        driver.finish(Mode.STOP)
    assert script.values(spark, "archive") == [0, 1]


def test_unnamed_queries_of_which_none_is_recognized_are_refused_before_they_read(
    script: Script, other: Feed
) -> None:
    before = stopped(script, archive="in", report="other")
    script.feed.minutes(1, 2)
    script.file.write_text(unnamed(archive2="in", report2="other"))
    assert refused(script.next(before)) == "StateWithoutStage"
    assert not files_below(script.home / "archive2", script.home / "report2")
