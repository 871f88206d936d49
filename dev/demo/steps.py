"""The steps of the demonstration. Each does what a user does, waits for a result, and returns what it saw.

Flights arrive in Kafka while the job is started, stopped and resumed. When the job has read all of them, it
is drained. Its output must then equal the result of the same query run as a batch.
"""

import json
from dataclasses import asdict, dataclass
from typing import Any

import yaml

from dev.cluster.layout import REPOSITORY
from dev.demo import site as sites
from dev.demo.console import Console
from dev.demo.feed import FLIGHTS, Feed
from dev.demo.job import Job, View
from dev.demo.kubectl import LATER, LIMIT, Object
from dev.demo.position import read
from dev.demo.site import Site
from dev.demo.waiting import PATIENCE, Failure, until

EXAMPLE = REPOSITORY / "examples" / "flights"
KAFKA = REPOSITORY / "dev" / "kafka" / "kafka.yaml"
NAME, TOPIC, CLAIM = "flights", "flights", "flights-data"
STOCK_USER = 185
STOCK_PYTHON = (
    'PYTHONPATH=$SPARK_HOME/python:$(echo "$SPARK_HOME"/python/lib/py4j-*-src.zip) exec python3 "$0" "$@"'
)
RATE = 4000  # rows a second: the year 2013 in a minute and a half


@dataclass(frozen=True)
class Outcome:
    """The results, for the report and for the tests."""

    stopped: View
    resumed: View
    drained: View
    executors: int
    arrived_while_stopped: int
    check: dict[str, Any]
    seconds: dict[str, float]

    def plain(self) -> dict[str, Any]:
        views = {name: getattr(self, name).object["status"] for name in ("stopped", "resumed", "drained")}
        return {**asdict(self), **views}


def tell(site: Site, console: Console, rows: int = FLIGHTS) -> Outcome:
    """Run all steps, from the start of Kafka to the comparison."""
    with console.chapter("Kafka", "a broker in the cluster"):
        start_kafka(site, console)
    feed = Feed(site.kubectl, TOPIC, RATE, rows)
    try:
        with console.chapter("Start", "kubectl apply -k examples/flights"):
            job, executors = start(site, feed, console)
        with console.chapter("Stop", "kubectl patch streamjob flights … spec.state: Stopped"):
            stopped = stop(job, console)
        with console.chapter("Meanwhile", "the job is stopped, its input continues"):
            arrived = wait_for_arrivals(feed, console)
        with console.chapter("Resume", "kubectl patch streamjob flights … spec.state: Running"):
            resumed = resume(job, feed, stopped, console)
        with console.chapter("Catch up", "until every flight of 2013 is read"):
            catch_up(job, feed, console)
    finally:
        feed.stop()
    with console.chapter("Drain", "kubectl patch streamjob flights … spec.state: Drained"):
        drained = drain(job, console)
    with console.chapter("Check", "the same query as a batch over the same topic"):
        result = check(site, console)
    return Outcome(stopped, resumed, drained, executors, arrived, result, dict(console.seconds))


def clear(site: Site) -> None:
    """Remove what an earlier run left in the namespace: job, check, Kafka with its topic, volume."""
    example = manifests(site, site.kubectl.run("kustomize", str(EXAMPLE)))
    check = manifests(site, (EXAMPLE / "check.yaml").read_text())
    objects = yaml.safe_dump_all([*check, *reversed(example), *manifests(site, KAFKA.read_text())])
    site.kubectl.run("delete", "--ignore-not-found", "-f", "-", LIMIT, stdin=objects, timeout=LATER)
    sites.remove_volume(site, CLAIM)


def start_kafka(site: Site, console: Console) -> None:
    site.kubectl.apply(*manifests(site, KAFKA.read_text()))
    site.kubectl.run("rollout", "status", "deployment/kafka", LIMIT, timeout=LATER)
    console.did("kafka:9092 accepts connections")


def start(site: Site, feed: Feed, console: Console) -> tuple[Job, int]:
    feed.let(feed.rows * 2 // 3)
    feed.reach(1, timeout=PATIENCE)  # the topic exists
    console.saw(f"flights of 2013 arrive in topic {TOPIC}, {RATE:,} a second")
    example = site.kubectl.run("kustomize", str(EXAMPLE))
    site.kubectl.apply(*sites.volume(site, CLAIM), *manifests(site, example))
    job = Job(site.kubectl, NAME)
    job.reach("Running", PATIENCE, console.saw)
    enough = feed.rows // 4
    position = until(lambda: read(job, enough), f"{enough:,} rows read", PATIENCE, every=1)
    executors = site.kubectl.list("pods", f"spark-role=executor,streamjob.dev/job={NAME}")
    if not executors:
        raise Failure("the job runs without an executor pod", "See spec.executor.instances of the example")
    console.did(f"running: driver {job.pod()}, {len(executors)} executor pod")
    console.saw(
        f"{position.rows:,} flights read in {position.batch + 1} batches, windows are out up to "
        f"{position.watermark}"
    )
    return job, len(executors)


def stop(job: Job, console: Console) -> View:
    job.ask("Stopped")
    view = job.reach("Stopped", PATIENCE, console.saw)
    console.did(
        f"stopped between two batches: batch {view.batch}, checkpoint {view.checkpoint}, no driver any more"
    )
    return view


def wait_for_arrivals(feed: Feed, console: Console) -> int:
    before = feed.written
    feed.let(max(before + feed.rows // 12, feed.rows * 3 // 4))
    feed.reach(before + feed.rows // 12, timeout=PATIENCE)
    arrived = feed.written - before
    console.did(f"{arrived:,} flights arrived while nothing ran")
    return arrived


def resume(job: Job, feed: Feed, stopped: View, console: Console) -> View:
    feed.let(feed.rows)
    job.ask("Running")
    job.reach("Running", PATIENCE, console.saw)
    until(lambda: read(job, after_batch=stopped.batch), "a batch after the resume", PATIENCE, every=1)
    view = job.view()
    console.did(f"epoch {view.epoch} continues with batch {stopped.batch + 1}")
    return view


def catch_up(job: Job, feed: Feed, console: Console) -> None:
    feed.finish(timeout=PATIENCE)
    console.saw(f"all {feed.rows:,} flights are in Kafka")
    position = until(lambda: read(job, feed.rows), f"all {feed.rows:,} rows read", PATIENCE, every=1)
    console.did(
        f"all are read, by batch {position.batch}; windows are out up to {position.watermark}, later ones "
        "are open"
    )


def drain(job: Job, console: Console) -> View:
    job.ask("Drained")
    view = job.reach("Drained", PATIENCE, console.saw)
    console.did(f"drained: {view.flushed} windows flushed, final checkpoint {view.final_checkpoint}")
    return view


def check(site: Site, console: Console) -> dict[str, Any]:
    """Run examples/flights/check.py in a pod.

    :raises Failure: the outputs differ, or the check did not finish.
    """
    (job,) = manifests(site, (EXAMPLE / "check.yaml").read_text())
    if site.settings.stock:
        job = in_stock_image(job)
    site.kubectl.run("delete", "job", "flights-check", "--ignore-not-found", "--wait", timeout=PATIENCE)
    site.kubectl.apply(job)
    until(lambda: _ended(site), "the check's end", PATIENCE, every=0.5)
    text = site.kubectl.run("logs", "job/flights-check", "--tail=20")
    table, found, last = text.rstrip().rpartition("\n")
    if not found or not last.startswith("{"):
        raise Failure(f"the check did not come to a result: {text[-1000:]}")
    console.plain(table[table.rindex("  batch") - 12 :] if "  batch" in table else table)
    result: dict[str, Any] = json.loads(last)
    if not result["equal"]:
        raise Failure(f"the drained output differs from the batch: {result['examples']}")
    console.did(f"{result['windows_stream']:,} windows, each there once and equal")
    return result


def _ended(site: Site) -> bool:
    status = (site.kubectl.get("job", "flights-check") or {}).get("status", {})
    return bool(status.get("succeeded") or status.get("failed"))


def manifests(site: Site, text: str) -> list[Object]:
    """The objects of a manifest, with the images of this site."""
    settings = site.settings
    text = text.replace(f"image: {sites.PREFIX}/driver:dev", f"image: {settings.image(settings.driver)}")
    if not site.local:
        text = text.replace(f"image: {sites.PREFIX}/", f"image: {settings.images}/")
        text = text.replace("imagePullPolicy: Never", "imagePullPolicy: IfNotPresent")
    documents: list[Object] = [document for document in yaml.safe_load_all(text) if document]
    for document in documents:
        if document["kind"] == "StreamJob" and not settings.stock:
            document["spec"]["runtime"] = "Image"  # which our own image has
    return documents


def in_stock_image(job: Object) -> Object:
    """The check, in an image that has pyspark only below SPARK_HOME, for that image's user."""
    pod = job["spec"]["template"]["spec"]
    pod["securityContext"] |= dict.fromkeys(("runAsUser", "runAsGroup", "fsGroup"), STOCK_USER)
    container = pod["containers"][0]
    python, *arguments = container["args"]
    assert python == "python"
    container["args"] = ["sh", "-c", STOCK_PYTHON, *arguments]
    return job
