"""What cannot work is said in a condition: a reason for machines, a sentence that names the field and the
remedy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from dev.demo.job import Job, View
from dev.demo.site import Settings, Site
from dev.demo.waiting import PATIENCE, until
from tests import gate

from .jobs import cheap, delete, local_job, make_scripts
from .shared_volume import Storage

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1200)]
HEAD = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
rows = spark.readStream.format("rate").load()
"""
SCRIPTS = {
    "syntax.py": "import sys\nprint(sys.argv\nexit()\n",
    "no-query.py": "print('nothing to do')\n",
    "continuous.py": HEAD + "rows.writeStream.format('noop').trigger(continuous='1 second').start()\n",
    "twins.py": HEAD + "for _ in 'ab':\n    rows.writeStream.queryName('twin').format('noop').start()\n",
    "good.py": HEAD + "rows.writeStream.format('noop').start().awaitTermination()\n",
}
NO_IMAGE = {"image": "streamjob.dev/no-such-image:dev", "imagePullPolicy": "Never"}
CONTROLLER = Settings.from_environment().image("controller")  # it has Python, and neither Spark nor Java


def started_by(*command: str) -> dict[str, Any]:
    """The image of the controller, whose own entry point runs no command."""
    template = cheap()
    template["spec"]["containers"][0]["command"] = list(command)
    return {"image": CONTROLLER, "driver": {"memory": "512Mi", "template": template}}


NO_JAVA = {"file": "/app/good.py", "env": [{"name": "JAVA_HOME", "value": "/nowhere"}]}
# name: script, what else is in its spec, reason, words of the message
CASES: dict[str, tuple[str, dict[str, Any], str, tuple[str, ...]]] = {
    "image": ("good.py", NO_IMAGE, "ImagePullBackOff", ("streamjob.dev/no-such-image:dev", "spec.image")),
    "syntax": ("syntax.py", {}, "ScriptSyntaxError", ("/app/syntax.py, line 2", "never closed")),
    "absent": ("absent.py", {}, "ScriptNotFound", ("/app/absent.py", "spec.application")),
    "jar": (
        "good.py",
        {"deps": {"jars": ["/app/no.jar"]}},
        "DependencyInvalid",
        ("spec.deps.jars", "no.jar"),
    ),
    "no-pyspark": ("good.py", started_by("/usr/bin/env"), "PysparkMissing", ("spec.image", "apache/spark")),
    "no-program": ("good.py", started_by("/nowhere"), "ContainerCannotStart", ("/nowhere", "spec.image")),
    "no-java": ("good.py", {"application": NO_JAVA}, "JavaMissing", ("JAVA_HOME is /nowhere", "Java 17")),
    "no-query": ("no-query.py", {}, "NoQueryStarted", ("writeStream",)),
    "continuous": ("continuous.py", {}, "UnsupportedTrigger", ("continuous", "processingTime")),
    "twins": ("twins.py", {}, "DuplicateQueryName", ("name twin", "queryName")),
    "unreachable": ("good.py", {}, "StorageNotOnVolume", ("/etc/checkpoints", "spec.storage.checkpoints")),
}

# Each commit has one, from the pod to the condition and its Event. tests/controller/rules/test_parse_pod.py,
# tests/spark/test_script_faults.py and test_dependencies.py show the others without a cluster.
QUICK = ("syntax",)


def bad(name: str) -> str:
    return f"bad-{name}"


@pytest.fixture(scope="module", autouse=True)
def all_of_them(cluster: Site, storage: Storage, request: pytest.FixtureRequest) -> Iterator[None]:
    """All at once: each has a driver to start, and one waits for them together."""
    make_scripts(cluster.kubectl, "bad-input", SCRIPTS)
    chosen = {"syntax"}  # the last two tests have no parameter
    chosen |= {
        i.callspec.params["name"]
        for i in request.session.items
        if isinstance(i, pytest.Function) and i.module is request.module and hasattr(i, "callspec")
    }
    for name, (script, spec, _, _) in CASES.items():
        if name not in chosen:
            continue
        job = local_job(
            cluster, bad(name), script, scripts="bad-input", termination={"onDelete": "Cancel"}, **spec
        )
        if name == "unreachable":
            job["spec"]["storage"]["checkpoints"] = "file:///etc/checkpoints"
        cluster.kubectl.apply(job)
    yield
    for name in chosen:
        delete(Job(cluster.kubectl, bad(name)))


@pytest.mark.parametrize("name", gate.slow_but(QUICK, CASES))
def test_the_condition_names_the_field_and_the_remedy(cluster: Site, name: str) -> None:
    _, _, reason, words = CASES[name]
    view = follow_to_error(Job(cluster.kubectl, bad(name)), reason)
    condition = next(c for c in view.object["status"]["conditions"] if is_true(c, reason))
    for word in words:
        assert word in condition["message"]
    assert view.condition("Ready")["status"] == "False"


def test_an_event_says_it_too(cluster: Site) -> None:
    follow_to_error(Job(cluster.kubectl, bad("syntax")), "ScriptSyntaxError")

    def events() -> list[Any]:
        found = cluster.kubectl.list("events")
        mine = [e for e in found if e["involvedObject"]["name"] == bad("syntax") and e["type"] == "Warning"]
        return [e for e in mine if e["reason"] == "ScriptSyntaxError"]

    assert "/app/syntax.py, line 2" in until(events, "an Event of it", PATIENCE)[0]["message"]


@pytest.mark.slow  # the last one of this job: it is bad no more
def test_a_job_goes_on_when_the_user_has_mended_it(cluster: Site, storage: Storage) -> None:
    job = Job(cluster.kubectl, bad("syntax"))
    follow_to_error(job, "ScriptSyntaxError")
    job.kubectl.patch("sj", job.name, {"spec": {"application": {"file": "/app/good.py"}}})
    assert job.follow(lambda v: v.phase == "Running", "Running", PATIENCE, stalled=True).stalled is False


def is_true(condition: dict[str, Any], reason: str) -> bool:
    return bool(condition["status"] == "True" and condition["reason"] == reason)


def follow_to_error(job: Job, reason: str) -> View:
    def told(view: View) -> bool:
        conditions = view.object.get("status", {}).get("conditions", [])
        return any(is_true(c, reason) for c in conditions)

    return job.follow(told, f"condition with reason {reason}", PATIENCE, stalled=True)
