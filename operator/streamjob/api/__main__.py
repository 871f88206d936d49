"""Print the CustomResourceDefinition: python -m streamjob.api > crds/streamjobs.yaml"""

from __future__ import annotations

import sys

import yaml

from .crd import definition

HEADER = "# Generated: python -m streamjob.api > crds/streamjobs.yaml\n"


def render() -> str:
    return HEADER + yaml.safe_dump(definition(), sort_keys=False, width=120)


if __name__ == "__main__":
    sys.stdout.write(render())
