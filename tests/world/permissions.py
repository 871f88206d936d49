"""What the chart lets a service account do, and the words in which the API server refuses the rest.

RBAC as the real authorizer has it: rights only add up; a `resourceNames` rule covers no request that has no
name yet (create); a RoleBinding gives rights in its own namespace, a ClusterRoleBinding in all.
tests/world/test_apiserver.py holds both against the real server.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

Obj = dict[str, Any]


@dataclass(frozen=True)
class Request:
    """What an authorizer knows of a request.

    `namespace`: None for all of them, `name`: None for a collection or a new object.
    """

    verb: str
    group: str
    resource: str
    namespace: str | None
    name: str | None


@dataclass(frozen=True, order=True)
class Right:
    """One verb on one resource.

    `names`: only objects of these names, empty for all; `namespace`: where, empty for everywhere.
    """

    group: str
    resource: str
    verb: str
    names: tuple[str, ...] = ()
    namespace: str = ""

    def covers(self, request: Request) -> bool:
        asked = (request.group, request.resource, request.verb)
        return (
            (self.group, self.resource, self.verb) == asked
            and self.namespace in ("", request.namespace)
            and (not self.names or request.name in self.names)
        )

    def __str__(self) -> str:
        resource = f"{self.resource}.{self.group}" if self.group else self.resource
        return " ".join([self.verb, resource, *self.names])


@dataclass(frozen=True)
class Rights:
    """All that `user` may do."""

    user: str
    all: frozenset[Right] = frozenset()

    def without(self, right: Right) -> Rights:
        return replace(self, all=self.all - {right})

    def refusal(self, request: Request) -> str | None:
        """The server's sentence; None if it may."""
        return None if any(right.covers(request) for right in self.all) else self.refused(request)

    def refused(self, request: Request) -> str:
        """In the words of the real one."""
        plural = request.resource.partition("/")[0]
        what = f"{plural}.{request.group}" if request.group else plural
        named = f'{what} "{request.name}"' if request.name else what
        where = f'in the namespace "{request.namespace}"' if request.namespace else "at the cluster scope"
        return (
            f'{named} is forbidden: User "{self.user}" cannot {request.verb} resource "{request.resource}" '
            f'in API group "{request.group}" {where}'
        )


@dataclass(frozen=True)
class Revoked(Rights):
    """Somebody has taken away all that it may do with one resource; no resource: all that it may do."""

    resource: str = ""

    def refusal(self, request: Request) -> str | None:
        if self.resource in ("", request.resource):
            return self.refused(request)
        return None


def rights_of(account: str, namespace: str, objects: Iterable[Obj]) -> Rights:
    """Of this service account, by the Roles and bindings among `objects`."""
    found = list(objects)
    roles = {(o["kind"], o["metadata"].get("namespace", ""), o["metadata"]["name"]): o for o in found}
    subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    rights: set[Right] = set()
    for binding in found:
        if binding["kind"] in ("RoleBinding", "ClusterRoleBinding") and subject in binding["subjects"]:
            where, ref = binding["metadata"].get("namespace", ""), binding["roleRef"]
            role = roles[ref["kind"], where if ref["kind"] == "Role" else "", ref["name"]]
            rights |= {replace(right, namespace=where) for right in _rights(role)}
    return Rights(f"system:serviceaccount:{namespace}:{account}", frozenset(rights))


def _rights(role: Obj) -> Iterator[Right]:
    for rule in role["rules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    yield Right(group, resource, verb, tuple(rule.get("resourceNames", ())))
