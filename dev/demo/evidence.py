"""Evidence after a failed step: the job's status as kubectl describes it, the pods, the ends of their logs,
events.
"""

from dev.demo.console import Console
from dev.demo.job import KIND
from dev.demo.kubectl import Kubectl
from dev.demo.waiting import Failure

LINES = 15
CONTROLLER = "app.kubernetes.io/name=streamjob,app.kubernetes.io/component=controller"


def show(kubectl: Kubectl, console: Console) -> None:
    """Print the evidence. Parts that cannot be fetched are left out."""
    described = _try(kubectl, "describe", KIND)
    if "Status:" in described:
        _section(console, "kubectl describe streamjob", described[described.index("Status:") :], 40)
    pods = _try(kubectl, "get", "pods", "--no-headers", "-o", "custom-columns=:metadata.name")
    _section(console, "kubectl get pods", _try(kubectl, "get", "pods"), 20)
    for pod in pods.split():
        _section(console, f"kubectl logs {pod}", _try(kubectl, "logs", pod, f"--tail={LINES}"), LINES)
    columns = "-o=custom-columns=:involvedObject.name,:reason,:message"
    events = _try(
        kubectl,
        "get",
        "events",
        "--sort-by=.metadata.creationTimestamp",
        "--field-selector=type=Warning",
        columns,
    )
    for event in [line for line in events.splitlines() if line.strip()][-5:]:
        console.failed(f"Event of {' '.join(event.split())}")


def _try(kubectl: Kubectl, *words: str) -> str:
    try:
        return kubectl.run(*words, timeout=15, check=False)
    except Failure:
        return ""


def _section(console: Console, title: str, text: str, lines: int) -> None:
    if text.strip():
        console.failed(f"{title}:")
        console.plain("\n".join(text.rstrip().splitlines()[-lines:]))
