"""docs/tutorials/scale.md: the number of executors is changed by hand, by a HorizontalPodAutoscaler, and by
what the job measures. The script and the objects are those of the page.
"""

from __future__ import annotations

import re
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timezone
from itertools import count

import pytest
import yaml

from dev.cluster.layout import REPOSITORY
from dev.demo import steps
from dev.demo.console import Console
from dev.demo.feed import BROKERS, KAFKA, PATIENT, end_offset
from dev.demo.job import Job
from dev.demo.kubectl import Kubectl
from dev.demo.site import Site
from dev.demo.waiting import PATIENCE, until
from streamjob.controller.objects import certs

from .jobs import FAST, delete, local_job, make_scripts, read_on, sums
from .shared_volume import APPS, Storage
from .test_executors import SMALL, have, numbers
from .test_faults import drain_and_compare

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(1800)]
ADAPTER, METRICS = "metrics-adapter", "v1beta1.external.metrics.k8s.io"
TOPIC, PARTITIONS = "load", 6
# Otherwise a partition gets so many rows in a row that each batch has one task.
IN_TURN = "org.apache.kafka.clients.producer.RoundRobinPartitioner"
PAGE = (REPOSITORY / "docs" / "tutorials" / "scale.md").read_text()
BLOCKS = dict(re.findall(r'^```\w+ title="([\w.]+)"\n(.*?)^```', PAGE, re.MULTILINE | re.DOTALL))


@pytest.fixture
def adapter(cluster: Site) -> Iterator[str]:
    """The pod of an adapter that serves the metric `lag`."""
    pair = certs.new(datetime.now(timezone.utc))
    files = {
        "adapter.py": (APPS / "metrics_adapter.py").read_text(),
        "tls.crt": pair.certificate,
        "tls.key": pair.key,
    }
    make_scripts(cluster.kubectl, ADAPTER, files)
    labels = {"app": ADAPTER}
    container = {
        "name": "adapter",
        "image": cluster.settings.image("driver"),
        "imagePullPolicy": "IfNotPresent",
        "command": ["python", "/app/adapter.py", "/app/tls.crt", "/app/tls.key", "/tmp/lag"],
        "volumeMounts": [{"name": "app", "mountPath": "/app"}],
        "readinessProbe": {"tcpSocket": {"port": 6443}, "periodSeconds": 1},
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": ADAPTER, "labels": labels},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
            "volumes": [{"name": "app", "configMap": {"name": ADAPTER}}],
        },
    }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": ADAPTER},
        "spec": {"selector": labels, "ports": [{"port": 443, "targetPort": 6443}]},
    }
    group, version = "external.metrics.k8s.io", "v1beta1"
    api = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": METRICS},
        "spec": {
            "group": group,
            "version": version,
            "service": {"namespace": cluster.namespace, "name": ADAPTER},
            "insecureSkipTLSVerify": True,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
        },
    }
    cluster.kubectl.apply(pod, service, api)
    cluster.kubectl.run("wait", f"pod/{ADAPTER}", "--for=condition=Ready", f"--timeout={PATIENCE:.0f}s")
    measure(cluster.kubectl, 10)
    cluster.kubectl.run(
        "wait", f"apiservice/{METRICS}", "--for=condition=Available", f"--timeout={PATIENCE:.0f}s"
    )
    yield ADAPTER
    cluster.kubectl.run("delete", "apiservice", METRICS)
    cluster.kubectl.run("delete", f"pod/{ADAPTER}", f"service/{ADAPTER}", f"configmap/{ADAPTER}")


def measure(kubectl: Kubectl, value: int) -> None:
    kubectl.run("exec", ADAPTER, "--", "sh", "-c", f"echo {value} > /tmp/lag")


def test_a_horizontal_pod_autoscaler_scales_a_job(cluster: Site, storage: Storage, adapter: str) -> None:
    job = sums(cluster, "load", executor={"instances": 1, **SMALL})
    have(job, 1, 1)
    cluster.kubectl.apply(yaml.safe_load(BLOCKS["hpa.yaml"]))
    measure(cluster.kubectl, 25)
    have(job, 3, 3)
    read_on(job, storage)
    assert cluster.kubectl.get("hpa", "load")["status"]["desiredReplicas"] == 3  # type: ignore[index]
    measure(cluster.kubectl, 5)
    have(job, 1, 1)
    assert "upgrade" not in job.view().object["status"]
    cluster.kubectl.run("delete", "hpa", "load")

    command, shown = PAGE.partition("## By hand")[2].partition("```sh\n")[2].partition("```")[0].splitlines()
    cluster.kubectl.run(*command.split()[1:])
    have(job, 3, 3)
    assert "running" in cluster.kubectl.run(*shown.replace("'", "").split()[1:])
    drain_and_compare(job, storage)
    delete(job)


class Producer:
    """Writes 0, 1, 2, … to the topic, at a rate that may change."""

    def __init__(self, kubectl: Kubectl, rate: float) -> None:
        self.rate, self.written = rate, 0
        producer = ["kafka.tools.ConsoleProducer", "--bootstrap-server", BROKERS, "--topic", TOPIC, *PATIENT]
        producer += ["--producer-property", f"partitioner.class={IN_TURN}"]
        self._sink = subprocess.Popen(
            kubectl.command("exec", "--stdin", KAFKA, "--", "/opt/kafka/start.sh", *producer),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env=kubectl.environment(),
        )
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def _write(self) -> None:
        assert self._sink.stdin is not None
        for number in count():
            if self._over.wait(1 / self.rate):
                break
            self._sink.stdin.write(f"{number}\n".encode())
            self._sink.stdin.flush()
            self.written = number + 1
        self._sink.stdin.close()

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        assert self._sink.wait(PATIENCE) == 0


def test_the_number_of_executors_follows_a_step_of_the_load(cluster: Site, storage: Storage) -> None:
    """One executor can do a hundred rows a second."""
    steps.start_kafka(cluster, Console())
    topics = ("/opt/kafka/start.sh", "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", BROKERS)
    cluster.kubectl.run(
        *("exec", KAFKA, "--", *topics, "--create", "--topic", TOPIC, "--partitions", str(PARTITIONS))
    )
    make_scripts(cluster.kubectl, "load", {"load.py": BLOCKS["load.py"]})
    executor = yaml.safe_load(BLOCKS["autoscale.yaml"])["spec"]["executor"]
    script = ("load.py", TOPIC, "/data/out/copied")
    made = local_job(cluster, "load", *script, scripts="load", executor=executor, sparkConf=FAST)
    producer = Producer(cluster.kubectl, 40)
    cluster.kubectl.apply(made)
    job = Job(cluster.kubectl, "load")
    have(job, 1, 1)
    until(lambda: job.view().object["status"]["stages"][0].get("load"), "the load is known", PATIENCE)
    producer.rate = 160
    have(job, 3, 3)
    assert "rows/s need" in job.view().object["status"]["autoscale"]["reason"]
    producer.rate = 20
    view = job.follow(lambda v: numbers(v) == (1, 1), "one executor again", PATIENCE)
    assert (view.epoch, "upgrade" in view.object["status"]) == (1, False)
    producer.close()
    assert end_offset(cluster.kubectl, TOPIC) == producer.written

    def everything_read() -> bool:
        (stage,) = job.view().object["status"]["stages"]
        return all(s.get("lagRows") == 0 for s in stage["sources"])

    until(everything_read, "the topic is read", PATIENCE)
    job.ask("Drained")
    job.reach("Drained", PATIENCE)
    found = Counter(int(n) for n in storage.shell(READ).split())
    assert found == Counter(range(producer.written))
    events = [e for e in cluster.kubectl.list("events") if e["involvedObject"]["name"] == "load"]
    assert any("rows/s need" in e["message"] for e in events if e["reason"] == "ExecutorsChanged")
    delete(job)
    manifests = (REPOSITORY / "dev" / "kafka" / "kafka.yaml").read_text()
    cluster.kubectl.run("delete", "--ignore-not-found", "-f", "-", stdin=manifests)


# The numbers in the files that the sink's log names.
READ = """
cd /data/out/copied
cat _spark_metadata/* | grep -o 'part-[^"]*json' | sort -u | xargs cat | grep -o '[0-9]*'
"""
