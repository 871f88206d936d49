"""Builds and runs the Go programs of this folder."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dev.cluster.build import own_program

SOURCE = Path(__file__).parent


@dataclass(frozen=True)
class Verdict:
    """What is said of an object."""

    status: str
    message: str


def argocd(health: Path, objects: Iterable[dict[str, Any]]) -> list[Verdict]:
    """What Argo CD says of each object by this script."""
    return [Verdict(**answer) for answer in _judge(["health", str(health)], objects)]


def kstatus(objects: Iterable[dict[str, Any]]) -> list[Verdict]:
    """What Flux says of each object: InProgress, Current, Failed or Terminating."""
    return [Verdict(**answer) for answer in _judge(["status"], objects)]


def returned(script: Path, obj: dict[str, Any]) -> Any:
    """What a script of Argo CD's returns for this object. An empty map becomes an empty list, as there."""
    (answer,) = _judge(["script", str(script)], [obj])
    return answer


def flux_apply(manifest: str, kubeconfig: str) -> str:
    """Apply as Flux's kustomize-controller does; what became of each object, a line each."""
    return _run("fluxapply", [], manifest, {"KUBECONFIG": kubeconfig})


def _judge(command: list[str], objects: Iterable[dict[str, Any]]) -> list[Any]:
    lines = _run("judge", command, "".join(json.dumps(obj) + "\n" for obj in objects))
    return [json.loads(line) for line in lines.splitlines()]


def _run(name: str, args: list[str], text: str, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        [own_program(SOURCE, name), *args],
        input=text,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, **(environment or {})},
    )
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    return done.stdout
