"""What a check says of a changed script, and that the real start then does what it has said (ADR 65).

One job is run once. Each row of the table is its script with a change.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark
import pytest

import streamjob
from dev.demo.waiting import PATIENCE
from streamjob.protocol.formats import index as indices
from streamjob.protocol.formats import manifest
from streamjob.protocol.formats.records import CheckpointRecord, JobRef
from streamjob.protocol.messages.check_report import DOES_NOT, GOES_ON, NOT_CHECKED
from streamjob.runtime.spark.offset_log import NAMES_SOURCES
from streamjob.runtime.spark.versions.table import order

from .feeds import Feed, eventually
from .stores import ROCKSDB
from .terminal import Terminal
from .test_other_spark import python_of

ROOT = Path(__file__).parents[2]
MANY = Path(__file__).parent / "apps" / "many_checks.py"

SCRIPT = """\
import sys
import time

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

home = sys.argv[1]
spark = SparkSession.builder.getOrCreate().newSession()
spark.conf.set("spark.sql.shuffle.partitions", "2")


def read(name, kind="json"):
    rows = spark.readStream.schema("t timestamp, k string, v long").format(kind).load(f"{home}/{name}")
    return rows.withWatermark("t", "10 minutes")


def start(name, rows, mode="append", folder=None, kind="json", **how):
    writer = rows.writeStream.queryName(name).outputMode(mode).format(kind).trigger(**(how or LOOKS))
    return writer.start(f"{home}/{folder or name}")


LOOKS = {"processingTime": "200 milliseconds"}
a, b = read("a"), read("b")
sums = a.groupBy(F.window("t", "5 minutes"), "k").agg(F.sum("v").alias("v"))
start("sums", sums.select("k", "v"))
start("distinct", a.dropDuplicates(["k", "t"]))
others = b.select(F.col("k").alias("l"), F.col("t").alias("u"))
start("pairs", a.join(others, F.expr("k = l AND t = u")))
start("both", a.union(b).select("v"))
spark.streams.awaitAnyTermination()
"""
QUERIES = ("sums", "distinct", "pairs", "both")
ABSENT = "-"
WAIT = "spark.streams.awaitAnyTermination()\n"


@dataclass(frozen=True)
class Change:
    """A change of the script, and what is to be said of it.

    :param edits: pairs of a text of the script and what takes its place.
    :param said: by query, what is not a bare `Continues`: the outcome, and words of what is said with it.
        `ABSENT`: the query is not mentioned.
    :param code: the exit code of the command.
    :param whole: words of what is said of the script as a whole.
    :param options: of the command, and of the start.
    """

    edits: tuple[tuple[str, str], ...]
    said: dict[str, str]
    code: int
    whole: str
    options: tuple[str, ...]

    @property
    def goes_on(self) -> bool:
        """Whether the real start does. What could not be checked may go on."""
        return self.code == GOES_ON or self.whole.startswith("NotChecked")

    def script(self, text: str = SCRIPT) -> str:
        for old, new in self.edits:
            assert text.count(old) == 1, (old, text)
            text = text.replace(old, new)
        return text


def edit(
    *edits: tuple[str, str],
    said: dict[str, str] | None = None,
    code: int | None = None,
    whole: str = "",
    options: tuple[str, ...] = (),
    **of_query: str,
) -> Change:
    said = {**(said or {}), **of_query}
    refuses = any(words.startswith(("Refused", "Missing ")) for words in said.values())
    return Change(edits, said, (DOES_NOT if refuses else GOES_ON) if code is None else code, whole, options)


SUMS = 'start("sums", sums.select("k", "v"))\n'
PAIRS = 'start("pairs", a.join(others, F.expr("k = l AND t = u")))\n'
BOTH = 'start("both", a.union(b).select("v"))\n'
DISTINCT = 'start("distinct", a.dropDuplicates(["k", "t"]))\n'
RATE = """spark.readStream.format("rate").load().selectExpr("timestamp AS t", "'k' AS k", "value AS v")"""
TABLE = {
    "nothing": edit(),
    "another order of the queries": edit((SUMS, ""), (WAIT, SUMS + WAIT)),
    "columns that touch no state": edit(
        ('sums.select("k", "v")', 'sums.select("v", "k", F.lit(1).alias("n"))')
    ),
    "another value of the state": edit(
        ('F.sum("v").alias("v")', 'F.max("k").alias("v")'),
        sums="Refused QueryChanged value: .* is (new|gone)",
    ),
    "another type of the value": edit(
        ('F.sum("v").alias("v")', 'F.avg("v").alias("v")'), sums="Refused QueryChanged"
    ),
    "order of the keys": edit(
        ('F.window("t", "5 minutes"), "k")', '"k", F.window("t", "5 minutes"))'), sums="Refused QueryChanged"
    ),
    "another window": edit(('F.window("t", "5 minutes"), "k")', 'F.window("t", "6 minutes"), "k")')),
    "one key less": edit(
        ('F.window("t", "5 minutes"), "k").agg(', 'F.window("t", "5 minutes")).agg(F.max("k").alias("k"), '),
        sums="Refused QueryChanged",
    ),
    "a renamed query": edit(
        (SUMS, SUMS.replace('"sums"', '"totals"', 1).replace("))", '), folder="sums")')),
        totals="Refused StateWithoutStage 'sums'",
        sums="Missing StateWithoutStage",
    ),
    "a renamed query in another folder": edit(
        (SUMS, SUMS.replace('"sums"', '"totals"', 1)), totals="New", sums="Missing StateWithoutStage"
    ),
    "a removed query": edit((SUMS, ""), sums="Missing StateWithoutStage"),
    "a removed query whose loss is allowed": edit(
        (SUMS, ""), sums="Missing", options=("--allow-non-restored-state",)
    ),
    "an added query": edit((WAIT, 'start("more", a.select("v"))\n' + WAIT), more="New"),
    "another watermark": edit(('"10 minutes"', '"1 hour"')),
    "another output mode": edit(
        ('sums.select("k", "v")', 'sums.select("k", "v"), mode="complete"'), sums="Refused QueryFailed "
    ),
    "shuffle partitions": edit(
        ('.partitions", "2"', '.partitions", "3"'),
        said=dict.fromkeys(QUERIES, "Continues SettingPinned spark.sql.shuffle.partitions is 2 and stays so"),
    ),
    "another state store": edit(
        (
            "LOOKS = {",
            f'spark.conf.set("spark.sql.streaming.stateStore.providerClass", "{ROCKSDB}")\nLOOKS = {{',
        ),
        said=dict.fromkeys(("sums", "distinct", "pairs"), "Continues SettingPinned providerClass"),
    ),
    "another folder of the sink": edit(
        (BOTH, BOTH.replace('"v"))', '"v"), folder="elsewhere")')),
        both="Continues SinkMoved elsewhere",
    ),
    "the folder of another query": edit(
        (BOTH, BOTH.replace('"v"))', '"v"), folder="sums")')), both="Refused SinkShared"
    ),
    "a source in another folder": edit(
        ('a, b = read("a"), read("b")', 'a, b = read("a"), read("c")'),
        pairs="Refused QueryChanged c",
        both="Refused QueryChanged c",
    ),
    "a source of another kind": edit(
        ('a, b = read("a"), read("b")', f'a = read("a")\nb = {RATE}.withWatermark("t", "10 minutes")'),
        pairs="Refused QueryChanged rate",
        both="Refused QueryChanged rate",
    ),
    "sources in another order": edit(
        (BOTH, 'start("both", b.union(a).select("v"))\n'), both="Refused QueryChanged"
    ),
    "one source more": edit(
        (BOTH, 'start("both", a.union(b).union(read("a")).select("v"))\n'),
        both="Refused QueryChanged had 2 sources and has 3",
    ),
    "an aggregation added": edit(
        (BOTH, 'start("both", a.union(b).dropDuplicates(["v", "t"]).select("v"))\n'),
        both="Refused QueryChanged stateful operator",
    ),
    "an aggregation removed": edit(
        (SUMS, 'start("sums", a.select("k", "v"))\n'), sums="Refused QueryChanged"
    ),
    "an operator before it": edit(
        (SUMS, SUMS),
        ("sums = a.groupBy", 'sums = a.dropDuplicates(["v", "t"]).groupBy'),
        sums="Refused QueryChanged",
    ),
    "other keys of duplicates": edit(('["k", "t"]', '["v", "t"]'), distinct="Refused QueryChanged"),
    "another kind of join": edit(
        (PAIRS, PAIRS.replace('t = u")', 't = u"), "left_outer"')), pairs="Refused QueryChanged"
    ),
    "a query that Spark does not run": edit(
        (WAIT, 'start("more", a.groupBy("k").count())\n' + WAIT), more="Refused QueryFailed watermark"
    ),
    "a folder that is ahead": edit(
        (BOTH, BOTH.replace('"v"))', '"v"), folder="ahead")')), both="Refused SinkAhead 7"
    ),
    "two queries refused": edit(
        ('["k", "t"]', '["v", "t"]'),
        ('F.sum("v").alias("v")', 'F.max("k").alias("v")'),
        distinct="Refused QueryChanged",
        sums="Refused QueryChanged",
    ),
    "two queries of one name": edit((BOTH, BOTH + BOTH), both="Refused DuplicateQueryName"),
    "asynchronous progress": edit(
        (".format(kind).trigger", '.option("asyncProgressTrackingEnabled", True).format(kind).trigger'),
        said=dict.fromkeys(QUERIES, "Refused AsyncProgressUnsupported"),
    ),
    "it raises before its first query": edit(
        ("a, b =", "1 / 0\na, b ="),
        code=NOT_CHECKED,
        whole="ScriptFailed ZeroDivisionError",
        said=dict.fromkeys(QUERIES, ABSENT),
    ),
    "it raises after two queries": edit(
        (PAIRS, "1 / 0\n"),
        code=NOT_CHECKED,
        whole="ScriptFailed ZeroDivisionError",
        pairs="NotStarted",
        both="NotStarted",
    ),
    "it starts no query": edit(
        ("a, b =", "sys.exit()\na, b ="),
        whole="NoQueryStarted",
        code=DOES_NOT,
        said=dict.fromkeys(QUERIES, ABSENT),
    ),
    "it cannot be parsed": edit(
        ("a, b =", "a b ="), code=NOT_CHECKED, whole="ScriptSyntaxError", said=dict.fromkeys(QUERIES, ABSENT)
    ),
    "it ends without a wait": edit((WAIT, "")),
    "it ends without a wait and without a query": edit((SUMS, ""), (WAIT, ""), sums="NotStarted"),
    "it waits for one that ends, and starts another": edit(
        (SUMS, ""),
        (BOTH, BOTH.replace('"v"))', '"v"), availableNow=True).awaitTermination()\n') + SUMS),
        code=NOT_CHECKED,
        whole="NotChecked",
        sums="NotStarted StateWithoutStage",
    ),
}


VERSION = order(pyspark.__version__)
OF_SCHEMAS = {
    "another value of the state",
    "another type of the value",
    "order of the keys",
    "one key less",
    "other keys of duplicates",
    "another kind of join",
    "two queries refused",
}
# Spark 3.5 compares schemas in the first batch only; 4.3 lets a join's state be read by another kind of join.
NOT_SEEN = OF_SCHEMAS if VERSION < (4, 0) else {"another kind of join"} if VERSION >= (4, 2) else set()


class Job:
    """A job that was stopped, and what it leaves."""

    def __init__(
        self,
        home: Path,
        text: str = SCRIPT,
        queries: tuple[str, ...] = QUERIES,
        python: str = sys.executable,
    ) -> None:
        self.home, self.python, self.text, self.queries = home, python, text, queries
        self.data, self.state = home / "data", home / "data" / "job"
        self.feeds = {name: Feed(self.data / name) for name in "abc"}
        for name, feed in self.feeds.items():
            feed.minutes(0, 30)
            if name == "c":
                feed.minutes(30, 40)
        with self.start(text) as driver:
            self.await_batch(0)
            driver.interrupt()
            assert driver.ended()[0] == 0, driver.ended()[1]
        ahead = self.data / "ahead"
        shutil.copytree(self.data / "both", ahead)
        shutil.copy(ahead / "_spark_metadata" / "0", ahead / "_spark_metadata" / "7")
        shutil.copytree(self.data, home / "kept")

    def start(self, text: str, *options: str) -> Terminal:
        script = self.home / "app.py"
        script.write_text(text)
        arguments = (str(self.data),)
        self.driver = Terminal(self.state, script, *options, arguments=arguments, python=self.python)
        return self.driver

    def await_batch(self, number: int, *queries: str) -> None:
        for query in queries or self.queries:
            commits = self.state / "checkpoints" / query / "0" / "commits"
            wanted, process = commits / str(number), self.driver.process
            eventually(lambda at=wanted, p=process: at.exists() or p.poll() is not None, f"{wanted}")
            assert wanted.exists(), self.driver.ended()[1]

    def files(self) -> dict[str, bytes]:
        return {str(f): f.read_bytes() for f in self.data.rglob("*") if f.is_file()}

    def put_back(self) -> None:
        shutil.rmtree(self.data)
        shutil.copytree(self.home / "kept", self.data)


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    return Job(tmp_path_factory.mktemp("check"))


def checked(job: Job, changes: dict[str, Change], python: str = sys.executable) -> dict[str, dict[str, Any]]:
    """The reports of all changed scripts, from one process."""
    folder = job.home / "changed"
    folder.mkdir(exist_ok=True)
    given = []
    for number, change in enumerate(changes.values()):
        script = folder / f"{number:02}.py"
        script.write_text(change.script(job.text))
        given.append(["--state", str(job.state), *change.options, str(script), str(job.data)])
    plan = folder / "plan.json"
    plan.write_text(json.dumps(given))
    with (folder / "log").open("w") as log:
        done = subprocess.run(
            [python, str(MANY), str(plan)],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            timeout=PATIENCE,
            env=environment(python),
            check=False,
        )
    reports = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(reports) == len(changes), (folder / "log").read_text()[-4000:]
    return dict(zip(changes, reports, strict=True))


def environment(python: str) -> dict[str, str]:
    source = str(Path(streamjob.__file__).parents[1])
    return {**os.environ, "PYTHONPATH": source, "PYSPARK_PYTHON": python}


def said(report: dict[str, Any]) -> dict[str, str]:
    """By query: the outcome, and all that is said of it. The last one counts."""
    found = {}
    for verdict in report["verdicts"]:
        problems = [verdict["problem"], *verdict["warnings"]]
        words = " ".join(f"{p['reason']} {p['message']}" for p in problems if p is not None)
        found[verdict["query"]] = f"{verdict['outcome']} {words}"
    return found


def wrong(change: Change, report: dict[str, Any], queries: tuple[str, ...] = QUERIES) -> list[str]:
    """What the report should have said."""
    found = said(report)
    wanted = {query: "Continues $" for query in queries if query in found}
    wanted |= {query: words for query, words in change.said.items() if words != ABSENT}
    wanted = {query: words.replace(" ", ".*") for query, words in wanted.items()}
    bad = [f"{q}: {found.get(q)}, not {w}" for q, w in wanted.items() if not re.match(w, found.get(q, ""))]
    bad += [f"{q}: {found[q]}" for q in found.keys() - wanted.keys()]
    bad += [f"{q} is there" for q, words in change.said.items() if words == ABSENT and q in found]
    whole = " ".join(f"{p['reason']} {p['message']}" for p in (report["refused"], report["unknown"]) if p)
    if not re.search(change.whole.replace(" ", ".*") or "^$", whole):
        bad.append(f"of the script: {whole}, not {change.whole}")
    return bad + ([f"code {report['code']}"] if report["code"] != change.code else [])


def test_what_is_said_of_each_change(job: Job) -> None:
    """And nothing is written, wherever."""
    before = job.files()
    reports = checked(job, TABLE)
    assert job.files() == before
    bad = {name: w for name, change in TABLE.items() if (w := wrong(change, reports[name]))}
    assert {name: w for name, w in bad.items() if name not in NOT_SEEN} == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLE)
def test_the_start_does_what_was_said(job: Job, name: str) -> None:
    change = TABLE[name]
    job.put_back()
    report = checked(job, {name: change})[name]
    for feed in ("a", "b"):
        job.feeds[feed].minutes(40, 60)
    with job.start(change.script(), *change.options) as driver:
        if change.goes_on:
            for verdict in report["verdicts"]:
                if verdict["outcome"] in ("Continues", "New"):
                    last = verdict["batch"]
                    job.await_batch(0 if last is None else last + 1, verdict["query"])
            driver.interrupt()
            assert driver.ended()[0] == 0, driver.ended()[1]
            return
        code, text = driver.ended()
    problems = [v["problem"] for v in report["verdicts"]] + [report["refused"], report["unknown"]]
    reasons = [p["reason"] for p in problems if p is not None]
    assert code != 0, text
    assert any(reason in text for reason in reasons) or reasons == ["QueryFailed"], (reasons, text)


NAMED = (
    SCRIPT[: SCRIPT.index("a, b =")].replace("readStream", "readStream.name(name)")
    + f"""\
spark.conf.set("{NAMES_SOURCES}", "true")
start("both", read("a").union(read("b")).select("v"))
spark.streams.awaitAnyTermination()
"""
)
UNION = 'read("a").union(read("b"))'
OF_NAMES = {
    "nothing": edit(),
    "another order": edit((UNION, 'read("b").union(read("a"))')),
    "one more": edit(
        (UNION, f'{UNION}.union(read("c"))'), both="Continues SourcesChanged c for the first time"
    ),
    "one less": edit((UNION, 'read("a")'), both="Continues SourcesChanged no longer reads b"),
    "no names": edit(
        ("readStream.name(name)", "readStream"),
        (f'"{NAMES_SOURCES}", "true"', f'"{NAMES_SOURCES}", "false"'),
        both="Refused QueryChanged no names",
    ),
}


@pytest.mark.skipif(VERSION < (4, 3), reason="sources have no names that stay yet")
def test_sources_with_names_come_and_go(tmp_path: Path) -> None:
    """That one is gone is said twice: its position is forgotten, so there is no way back."""
    job = Job(tmp_path, NAMED, ("both",))
    reports = checked(job, OF_NAMES)
    assert {n: w for n, change in OF_NAMES.items() if (w := wrong(change, reports[n], ("both",)))} == {}
    assert [name for name, report in reports.items() if report["no_way_back"]] == ["one more", "one less"]


@pytest.mark.slow
@pytest.mark.parametrize(("wrote", "checks"), [("3.5", "4.1"), ("4.1", "3.5"), ("4.3", "4.1")])
def test_another_spark(tmp_path: Path, wrote: str, checks: str) -> None:
    """A newer one may continue, and the way back is not promised; an older one is warned of, or refuses."""
    text = SCRIPT.replace(PAIRS, "")  # of a join's state, 4.1 refuses in the first batch what 3.5 has written
    job = Job(tmp_path, text, ("sums", "distinct", "both"), str(python_of(wrote)))
    change = edit()
    report = checked(job, {"nothing": change}, str(python_of(checks)))["nothing"]
    said_of = set(said(report).values())
    if order(wrote) < order(checks):
        assert (report["code"], said_of) == (GOES_ON, {"Continues "})
        assert f"Spark {wrote} ran 'sums'" in " ".join(report["no_way_back"])
    else:
        assert all("SparkIsOlder" in words or "CheckpointOfNewerSpark" in words for words in said_of), said_of
    job.python = str(python_of(checks))
    for feed in ("a", "b"):
        job.feeds[feed].minutes(40, 60)
    with job.start(text) as driver:
        if report["code"] == GOES_ON:
            for verdict in report["verdicts"]:
                job.await_batch(verdict["batch"] + 1, verdict["query"])
            driver.interrupt()
        code, text = driver.ended()
    assert (code == 0) == (report["code"] == GOES_ON), text


@pytest.mark.slow
def test_beside_the_running_job(job: Job) -> None:
    """It misses no batch, whatever is found; and the report is all that is on standard output."""
    job.put_back()
    changed = job.home / "changed.py"
    changed.write_text(TABLE["two queries refused"].script())
    with job.start(SCRIPT) as driver:
        driver.shows("streamjob: Running")
        words = [sys.executable, "-m", "streamjob.runtime", "check", "--state", str(job.state), str(changed)]
        done = subprocess.run(
            [*words, str(job.data)],
            capture_output=True,
            text=True,
            env=environment(sys.executable),
            check=False,
        )
        for feed in ("a", "b"):
            job.feeds[feed].minutes(40, 60)
        job.await_batch(2, "sums", "distinct", "pairs")
        job.await_batch(1, "both")
        driver.interrupt()
        assert driver.ended()[0] == 0
    assert done.returncode == DOES_NOT, done.stderr
    assert re.search("^  sums      refused\n    QueryChanged: ", done.stdout, re.MULTILINE), done.stdout
    assert done.stdout.splitlines()[-1] == "It does not go on."


@pytest.mark.parametrize("what", ["no savepoint", "of another job", "no job"])
def test_what_nothing_can_continue_from_is_refused_before_the_script_begins(
    tmp_path: Path, what: str
) -> None:
    script = tmp_path / "app.py"
    script.write_text("raise SystemExit('it has begun')")
    options = ["--state", str(tmp_path / "job")]
    if what == "no savepoint":
        options = ["--savepoint", str(tmp_path)]
    elif what == "of another job":
        record = CheckpointRecord(1, 1, None, None, None, "2026-01-01T00:00:00Z", ())
        made = manifest.new(JobRef("shop", "orders", "another"), "4.1.4", record, ())
        (tmp_path / "manifest.json").write_bytes(manifest.dumps(made))
        (tmp_path / "job").mkdir()
        (tmp_path / "job" / "index.json").write_text(indices.dumps(indices.add(indices.empty("uid"), record)))
        options += ["--savepoint", str(tmp_path)]
    words = [sys.executable, "-m", "streamjob.runtime", "check", "--json", *options, str(script)]
    done = subprocess.run(words, capture_output=True, text=True, env=environment(sys.executable), check=False)
    reasons = {
        "no savepoint": "SavepointIncomplete",
        "of another job": "SavepointForeign",
        "no job": "NotChecked",
    }
    assert done.returncode == NOT_CHECKED, done.stderr
    assert json.loads(done.stdout)["unknown"]["reason"] == reasons[what]
    assert "it has begun" not in done.stderr
    assert len(list(tmp_path.rglob("*"))) == (4 if what == "of another job" else 1)


def checks(job: Job, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    """The command, in a process of its own."""
    script = job.home / "polls.py"
    script.write_text(text)
    words = [sys.executable, "-m", "streamjob.runtime", "check", "--state", str(job.state), *options]
    return subprocess.run(
        [*words, str(script), str(job.data)],
        capture_output=True,
        text=True,
        env=environment(sys.executable),
        check=False,
        timeout=PATIENCE,
    )


@pytest.mark.slow
def test_a_script_that_never_waits_is_ended_after_a_while(job: Job) -> None:
    """Without its `finally`: what cleans up after the queries must not run for a check."""
    job.put_back()
    loop = "try:\n    while spark.streams.active:\n        time.sleep(0.2)\n"
    polls = f"{loop}finally:\n    open(home + '/over', 'w')\n"
    done = checks(job, SCRIPT.replace(WAIT, polls))
    assert done.returncode == GOES_ON, done.stderr
    assert done.stdout.count("continues after batch") == len(QUERIES)
    assert not (job.data / "over").exists()


@pytest.mark.slow
def test_a_script_that_does_not_come_to_its_queries_is_told_of(job: Job) -> None:
    job.put_back()
    done = checks(job, "import time\ntime.sleep(3600)", "--timeout", "1", "--json")
    assert done.returncode == NOT_CHECKED, done.stderr
    assert json.loads(done.stdout)["unknown"]["reason"] == "NotChecked"
