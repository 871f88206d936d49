"""The calls for the CustomResourceDefinition, which `upgrade_crd` makes with an account of its own."""

from __future__ import annotations

from ..objects import Obj
from . import paths
from .kube import Kube


class DefinitionKube(Kube):
    """A connection that also gets and updates the definition."""

    async def get_definition(self, name: str) -> Obj | None:
        return await self._or_none(self._call("GET", paths.definition(name)))

    async def put_definition(self, body: Obj) -> Obj:
        """Replace the definition.

        :raises Conflict: it is no longer at the resourceVersion in `body`.
        """
        return await self._call("PUT", paths.definition(body["metadata"]["name"]), body)
