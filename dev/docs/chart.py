"""The chart's README, generated from Chart.yaml and from the comments of values.yaml.

python -m dev.docs.chart charts/streamjob > charts/streamjob/README.md
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

TEXT = """\
<!-- Generated: make chart -->
# {name}

{description}

    helm install {name} oci://REGISTRY/charts/{name} --version {version} \\
      --namespace streams --create-namespace

Or from the release's file: `helm install {name} ./{name}-{version}.tgz` with the same options.

[The project's README]({project}) says how to go on from here. Kubernetes {kubernetes} is required.

- **Upgrade.** `helm upgrade` brings the CustomResourceDefinition to the new version, too
  (`crds.upgrade`). Jobs keep running.
- **Test.** `helm test {name} --namespace streams` checks that each replica is healthy and that one of
  them leads.
- **Uninstall.** First delete all StreamJobs, because only the controller can remove their finalizers.
  helm leaves the CustomResourceDefinition. If no other release is in the cluster:
  `kubectl delete crd streamjobs.streamjob.dev`. It deletes every StreamJob that is left.
- **OpenShift.** Set `podSecurity=OpenShift`.

## Values

| value | default | meaning |
|---|---|---|
{rows}
"""
PROJECT = "../../README.md#on-your-own-cluster"  # as seen in the repository


@dataclass(frozen=True)
class Value:
    """A value of the chart.

    :param default: as JSON; empty for a group of values.
    """

    name: str
    default: str
    comment: str


def values(text: str) -> Iterator[Value]:
    """Yield each value of values.yaml in order. A mapping with comments inside is a group of values."""
    lines = text.splitlines()
    yield from _values(yaml.compose(text), lines, "")


def _values(node: Any, lines: list[str], prefix: str) -> Iterator[Value]:
    for key, child in node.value:
        name = f"{prefix}{key.value}"
        comment = _comment_above(lines, key.start_mark.line, key.start_mark.column)
        if _is_group(child, lines):
            if comment:
                yield Value(name, "", comment)
            yield from _values(child, lines, f"{name}.")
        else:
            default = yaml.safe_load(yaml.serialize(child))
            yield Value(name, json.dumps(default, separators=(", ", ": ")), comment)


def _is_group(node: Any, lines: list[str]) -> bool:
    if not isinstance(node, yaml.MappingNode) or not node.value:
        return False
    first, last = node.start_mark.line - 1, node.end_mark.line
    inner = lines[max(first, 0) : last]
    return any(line.startswith(" ") and line.lstrip().startswith("#") for line in inner)


def _comment_above(lines: list[str], line: int, column: int) -> str:
    found: list[str] = []
    start = " " * column + "# "
    while line > 0 and lines[line - 1].startswith(start):
        line -= 1
        found.insert(0, lines[line].removeprefix(start).strip())
    return " ".join(found)


def readme(folder: Path, project: str = PROJECT) -> str:
    """Return the README of the chart in this folder.

    :param project: where the project's README is.
    """
    chart = yaml.safe_load((folder / "Chart.yaml").read_text())
    rows = "\n".join(map(_row, values((folder / "values.yaml").read_text())))
    kubernetes = chart["kubeVersion"].removeprefix(">=").removesuffix(".0-0") + " or newer"
    return TEXT.format(**chart, kubernetes=kubernetes, rows=rows, project=project)


def _row(value: Value) -> str:
    default = f"`{value.default}`" if value.default else ""
    return f"| `{value.name}` | {default} | {value.comment.replace('|', chr(92) + '|')} |"


if __name__ == "__main__":
    sys.stdout.write(readme(Path(sys.argv[1])))
