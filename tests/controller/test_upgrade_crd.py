"""Which definition is written in place of the cluster's."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from streamjob.api.crd import VERSION_ANNOTATION, definition
from streamjob.controller import upgrade_crd
from streamjob.controller.api_server.definitions import DefinitionKube
from streamjob.controller.api_server.errors import Conflict

Obj = dict[str, Any]
OURS = definition()["metadata"]["annotations"][VERSION_ANNOTATION]


def in_the_cluster(version: str | None = "0.0.9") -> Obj:
    """A definition of another version: it lacks a field of ours and has one that we have no more."""
    found = deepcopy(definition())
    spec = fields(found)
    del spec["suspend"]
    spec["formerField"] = {"type": "string"}
    found["metadata"] |= {"resourceVersion": "7", "labels": {"team": "data"}}
    found["metadata"]["annotations"] = {"theirs": "1"} | ({VERSION_ANNOTATION: version} if version else {})
    return found


def fields(body: Obj) -> Obj:
    found: Obj = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    return found


class Server(DefinitionKube):
    """An API server with a definition.

    :param conflicts: so many writes come too late.
    """

    def __init__(self, found: Obj | None, conflicts: int = 0) -> None:
        super().__init__()
        self.found, self.conflicts, self.writes = found, conflicts, 0

    async def get_definition(self, name: str) -> Obj | None:
        assert name == "streamjobs.streamjob.dev"
        return deepcopy(self.found)

    async def put_definition(self, body: Obj) -> Obj:
        self.writes += 1
        if self.writes <= self.conflicts:
            raise Conflict(409, "the object has been modified")
        self.found = deepcopy(body)
        self.found["metadata"]["resourceVersion"] = "8"
        return self.found


@pytest.mark.parametrize("version", [None, "0.0.9", OURS, f"{OURS}rc1"])
async def test_an_older_definition_becomes_ours(version: str | None) -> None:
    server = Server(in_the_cluster(version))
    said = await upgrade_crd.upgrade(server)
    assert said == f"streamjobs.streamjob.dev is now as version {OURS} has it"
    assert server.found is not None
    assert server.found["spec"] == definition()["spec"], "what it had before is gone"
    metadata = server.found["metadata"]
    assert metadata["annotations"] == {"theirs": "1", VERSION_ANNOTATION: OURS}
    assert metadata["labels"] == {"team": "data"}


@pytest.mark.parametrize("version", ["0.10.0", "1.0"])
async def test_a_newer_one_stays(version: str) -> None:
    """Another release in the cluster needs it. 0.10 is newer than 0.9."""
    server = Server(in_the_cluster(version))
    assert "newer: it stays" in await upgrade_crd.upgrade(server)
    assert server.writes == 0


async def test_a_write_that_comes_too_late_is_repeated_and_not_forever() -> None:
    server = Server(in_the_cluster(), conflicts=2)
    await upgrade_crd.upgrade(server)
    assert server.writes == 3
    server = Server(in_the_cluster(), conflicts=99)
    with pytest.raises(Conflict):
        await upgrade_crd.upgrade(server)
    assert server.writes == upgrade_crd.ATTEMPTS


async def test_without_a_definition_there_is_a_remedy() -> None:
    with pytest.raises(upgrade_crd.DefinitionMissing) as caught:
        await upgrade_crd.upgrade(Server(None))
    assert "kubectl apply" in caught.value.remedy


def test_versions_are_compared_by_number() -> None:
    assert upgrade_crd.numbers("0.10.1rc2") == (0, 10, 1)
    assert upgrade_crd.numbers("") == ()
    assert upgrade_crd.numbers("0.9") < upgrade_crd.numbers("0.10")
