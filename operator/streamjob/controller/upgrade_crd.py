"""Bring the cluster's CustomResourceDefinition to this version.

    python -m streamjob.controller.upgrade_crd

The chart runs this before an installation and before an upgrade: helm itself never changes a definition that
exists. The API server would then silently drop every field that the older definition lacks.
"""

from __future__ import annotations

import asyncio
import logging
import re
import sys

from ..api.crd import VERSION_ANNOTATION, definition
from ..protocol.errors import StreamJobError
from .api_server.definitions import DefinitionKube
from .api_server.errors import Conflict
from .objects import Obj
from .process import logs

log = logging.getLogger(__name__)

ATTEMPTS = 5  # the API server itself changes the definition's status


class DefinitionMissing(StreamJobError):
    """There is no definition to upgrade."""

    reason = "DefinitionMissing"
    retryable = False


def upgraded(found: Obj, wanted: Obj) -> Obj | None:
    """Return the definition to write, or None if the cluster's is of a newer version.

    A newer definition stays: another release in the cluster needs it, and knows what this version knows.

    :param found: the cluster's definition.
    :param wanted: the definition of this version.
    """
    metadata = found["metadata"]
    annotations = metadata.get("annotations") or {}
    ours = wanted["metadata"]["annotations"]
    if numbers(annotations.get(VERSION_ANNOTATION, "")) > numbers(ours[VERSION_ANNOTATION]):
        return None
    # The spec as a whole. Server-side apply would keep the fields of the older one that helm still owns.
    return {**found, "metadata": {**metadata, "annotations": annotations | ours}, "spec": wanted["spec"]}


def numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a release, `0.10.1rc2` -> (0, 10, 1); none for a definition without a version."""
    found = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


async def upgrade(kube: DefinitionKube) -> str:
    """Write the definition unless the cluster's is newer, and return a sentence about it.

    :raises DefinitionMissing: there is none.
    :raises KubeError: the API server refused it.
    """
    wanted = definition()
    name = wanted["metadata"]["name"]
    for attempt in range(1, ATTEMPTS + 1):
        found = await kube.get_definition(name)
        if found is None:
            raise DefinitionMissing(
                f"there is no CustomResourceDefinition {name}",
                remedy="Install the chart without --skip-crds, or `kubectl apply --server-side -f crds/`",
            )
        new = upgraded(found, wanted)
        if new is None:
            newer = found["metadata"]["annotations"][VERSION_ANNOTATION]
            return f"{name} is of version {newer}, which is newer: it stays"
        try:
            written = await kube.put_definition(new)
        except Conflict:
            if attempt == ATTEMPTS:
                raise
            continue
        same = written["metadata"]["resourceVersion"] == found["metadata"]["resourceVersion"]
        return f"{name} {'was' if same else 'is now'} as version {_version(wanted)} has it"
    raise AssertionError("unreachable")


def _version(wanted: Obj) -> str:
    return str(wanted["metadata"]["annotations"][VERSION_ANNOTATION])


async def main() -> int:
    logs.configure("text", verbose=False)
    kube = DefinitionKube()
    await kube.open()
    try:
        log.info("%s", await upgrade(kube))
    except StreamJobError as e:
        log.error("%s: %s. %s", e.reason, e, e.remedy)
        return 1
    finally:
        await kube.close()
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
