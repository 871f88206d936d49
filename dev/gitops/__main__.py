"""Prints what Argo CD's ConfigMap has to have, generated from the scripts in examples/gitops/argocd."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "examples/gitops/argocd/streamjob.dev/StreamJob"
HEAD = """\
# Generated: python -m dev.gitops > examples/gitops/argocd/argocd-cm.yaml
# For `kubectl apply --server-side`, which adds these entries to those that are there.
apiVersion: v1
kind: ConfigMap
metadata:
  name: argocd-cm
data:
"""


def config_map(scripts: Path = SCRIPTS) -> str:
    kind = f"{scripts.parent.name}_{scripts.name}"
    actions = "discovery.lua: |\n" + indent(_text(scripts / "actions/discovery.lua"), "  ") + "definitions:\n"
    for path in sorted((scripts / "actions").glob("*/action.lua")):
        actions += f"- name: {path.parent.name}\n  action.lua: |\n" + indent(_text(path), "    ")
    entries = {"health": _text(scripts / "health.lua"), "actions": actions}
    return HEAD + "".join(
        f"  resource.customizations.{name}.{kind}: |\n" + indent(text, "    ")
        for name, text in entries.items()
    )


def _text(path: Path) -> str:
    return path.read_text().rstrip("\n") + "\n"


if __name__ == "__main__":
    print(config_map(), end="")
