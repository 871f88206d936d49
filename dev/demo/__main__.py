"""Run the demonstration. It reads the environment variables CLUSTER, IMAGES, KEEP, SPARK and IMAGE (see the
Makefile).
"""

import argparse
import json
import sys
from pathlib import Path

from dev.cluster.layout import ClusterError
from dev.demo import evidence, site, steps
from dev.demo.console import Console
from dev.demo.site import Settings, Site
from dev.demo.waiting import Failure

NAMESPACE = "streamjob-demo"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m dev.demo", description=__doc__)
    parser.add_argument("--down", action="store_true", help="take away what KEEP=1 left")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results and timings")
    arguments = parser.parse_args()
    console = Console()
    place: Site | None = None
    try:
        settings = Settings.from_environment()
        if arguments.down:
            return down(settings, console)
        console.title("StreamJob: a PySpark stream that stops with a savepoint, resumes, and drains")
        with console.chapter(
            "Cluster", f"context {settings.context}" if settings.context else "a real Kubernetes"
        ):
            place = site.reach_cluster(settings, NAMESPACE, console)
        prepare(place, console)
        outcome = steps.tell(place, console)
        if arguments.json:
            arguments.json.write_text(json.dumps(outcome.plain(), indent=1) + "\n")
        conclude(outcome, console)
        clean(place, console)
    except (Failure, ClusterError) as failure:
        console.failed(str(failure))
        if remedy := getattr(failure, "remedy", ""):
            console.saw(remedy)
        if place:
            evidence.show(place.kubectl, console)
            console.saw("everything is left as it is, to look at; `make demo-down` removes it")
        return 1
    except KeyboardInterrupt:
        console.failed("interrupted; `make demo-down` takes away what is there")
        return 130
    return 0


def prepare(place: Site, console: Console) -> None:
    where = "in Spark's own layout" if place.settings.stock else "of the product's Dockerfile"
    with console.chapter(
        "Images", f"Spark {place.settings.spark} {where}, the controller, and a Kafka broker"
    ):
        site.bring_images(place, console)
    with console.chapter("Operator", "helm install charts/streamjob"):
        site.remove(place, console)
        site.make_namespace(place)
        site.install_chart(place, console)


def conclude(outcome: steps.Outcome, console: Console) -> None:
    console.title("The drained output is the batch result: every window, no row lost, none counted twice")
    for name, seconds in console.seconds.items():
        console.plain(f"{name:<12}{seconds:>8.1f} s")
    console.title(f"The savepoint of the stop stays with its owner: {outcome.stopped.savepoint}")


def clean(place: Site, console: Console) -> None:
    if place.settings.keep:
        config = f"export KUBECONFIG={place.kubectl.kubeconfig}; " if place.kubectl.kubeconfig else ""
        console.saw(f"kept: {config}kubectl -n {place.namespace} get streamjobs; `make demo-down` removes it")
        return
    with console.chapter("Clean up", "KEEP=1 would keep it"):
        if place.booted:
            site.end_cluster(console)
        else:
            site.remove(place, console)


def down(settings: Settings, console: Console) -> int:
    with console.chapter(
        "Clean up", f"context {settings.context}" if settings.context else "the local cluster"
    ):
        if settings.context:
            site.remove(site.reach_cluster(settings, NAMESPACE, console), console)
        else:
            site.end_cluster(console)
    return 0


if __name__ == "__main__":
    sys.exit(main())
