"""The API server, as far as the controller and the models around it can tell: what each request answers, and
what is then there.

tests/world/test_apiserver.py holds it against the real one, with the same random requests.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from random import Random
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from uuid import UUID

from streamjob.api.crd import UNSEEN
from streamjob.protocol.times import moment, timestamp

from .permissions import Request, Rights

Obj = dict[str, Any]
Key = tuple[str, str, str]  # plural, namespace, name
PATH = re.compile(
    r"/(?:api|apis/(streamjob\.dev|(?:coordination|events|networking|gateway\.networking)\.k8s\.io))/v1(?:alpha1)?"
    r"(?:/namespaces/([^/]+))?/([a-z]+)(?:/([^/]+))?(?:/(status))?"
)
KINDS = {
    "streamjobs": "StreamJob",
    "pods": "Pod",
    "configmaps": "ConfigMap",
    "secrets": "Secret",
    "persistentvolumeclaims": "PersistentVolumeClaim",
}
VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
OF_MANY = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}  # without a name
SELECTOR = re.compile(r"([^=!,\s]+)(!=|=| in )(\([^)]*\)|[^,]*)")
POD_GRACE = 30
NEW_STATUS = UNSEEN | dict.fromkeys(("term", "epoch", "startedEpoch"), 0)  # with the defaults of its fields
NOT_METADATA = ("metadata", "status")


@dataclass
class Refusal(Exception):
    """What the server says no with."""

    code: int
    reason: str
    message: str
    cause: str = ""

    @property
    def body(self) -> Obj:
        return {
            "kind": "Status",
            "status": "Failure",
            "code": self.code,
            "reason": self.reason,
            "message": self.message,
            **({"details": {"causes": [{"reason": self.cause}]}} if self.cause else {}),
        }


@dataclass(frozen=True)
class Change:
    """One object before and after a write; None: it was, or is, not there. `by`: who asked."""

    by: str
    key: Key
    old: Obj | None
    new: Obj | None


class ApiServer:
    """:param changed: called after each write that changed something.

    Stored objects are never changed, only replaced.
    :param rights: of whoever sends requests; the models around write without asking. None: may do everything.
    """

    def __init__(
        self,
        now: Callable[[], datetime],
        changed: Callable[[Change], None],
        rng: Random,
        rights: Rights | None = None,
    ) -> None:
        self._now, self._changed, self._rng = now, changed, rng
        self._version = 100
        self.objects: dict[Key, Obj] = {}
        # The uids of jobs as created: their default status is shown, and stored with the first write.
        self._fresh: set[str] = set()
        self.ending: set[str] = set()  # namespaces that are being deleted
        self.events = 0
        self.rights = rights
        self.forbidden: list[Request] = []
        self._texts: dict[str, str] = {}  # by resourceVersion

    # --- requests -------------------------------------------------------------------------------------------

    def handle(self, by: str, method: str, path: str, body: Obj | None = None) -> tuple[int, str]:
        """Status code and body of the answer."""
        code, answer = self._answer(by, method, path, body)
        if "items" in answer:
            return code, '{"metadata":{},"items":[' + ",".join(map(self._text, answer["items"])) + "]}"
        return code, self._text(answer)

    def _text(self, obj: Obj) -> str:
        """The same object is written out once."""
        version = obj.get("metadata", {}).get("resourceVersion")
        if version is None:
            return json.dumps(obj)
        if version not in self._texts:
            self._texts[version] = json.dumps(obj)
        return self._texts[version]

    def _answer(self, by: str, method: str, path: str, body: Any) -> tuple[int, Obj]:
        found = _parsed(path)
        if found is None:
            return 404, Refusal(404, "NotFound", "no such path").body
        group, namespace, plural, name, sub, query = found
        if body is not None and plural != "events":
            # As over the wire: nothing that the caller still holds is in the store.
            body = json.loads(json.dumps(body))
        try:
            verb = "watch" if "watch" in query else (VERBS if name else OF_MANY)[method]
            self._authorize(Request(verb, group or "", f"{plural}/{sub}" if sub else plural, namespace, name))
            if verb == "watch":
                return 200, {"items": []}  # what it brings is the world's to deliver
            if verb == "list":
                return 200, {"items": list(self._list(plural, namespace, query))}
            if verb == "deletecollection":
                for obj in list(self._list(plural, namespace, query)):
                    self.delete(by, (plural, namespace, obj["metadata"]["name"]), body or {})
                return 200, {"kind": "Status", "status": "Success"}
            if name is None:
                return 201, self.create(by, plural, namespace, body)
            key = (plural, namespace, name)
            if method == "GET":
                return 200, self.get(key)
            if "fieldManager" in query:
                return self.apply(by, key, body, force=query["force"] == ["true"])
            if method == "PUT":
                return 200, self.put(by, key, body, sub)
            if plural == "events":
                return 200, {"metadata": {"name": name}}  # nobody reads them
            if method == "PATCH":
                return 200, self.patch(by, key, body, sub)
            return 200, self.delete(by, key, body or {})
        except Refusal as e:
            return e.code, e.body

    def _authorize(self, request: Request) -> None:
        refusal = self.rights.refusal(request) if self.rights is not None else None
        if refusal is not None:
            self.forbidden.append(request)
            raise Refusal(403, "Forbidden", refusal)

    def _authorize_creation(self, key: Key) -> None:
        """Of a patch that creates. The group is that of the patch, which has been authorized."""
        group = {"ingresses": "networking.k8s.io", "httproutes": "gateway.networking.k8s.io"}
        self._authorize(Request("create", group.get(key[0], ""), key[0], key[1], None))

    def get(self, key: Key) -> Obj:
        if key not in self.objects:
            raise Refusal(404, "NotFound", f'{key[0]} "{key[2]}" not found')
        return self.objects[key]

    def _list(self, plural: str, namespace: str | None, query: dict[str, list[str]]) -> Iterator[Obj]:
        there = self.objects.items()
        found = (o for (kind, where, _), o in there if kind == plural and namespace in (None, where))
        return self.selected(found, query)

    @staticmethod
    def selected(objects: Iterable[Obj], query: dict[str, list[str]]) -> Iterator[Obj]:
        """Those that a list or watch with this query brings: by labels, and of fields by name."""
        terms = [
            (key, operator != "!=", [v.strip() for v in values.strip("()").split(",")])
            for key, operator, values in SELECTOR.findall((query.get("labelSelector") or [""])[0])
        ]
        fields = [t.split("=") for t in (query.get("fieldSelector") or [""])[0].split(",") if t]
        for obj in objects:
            labels = obj["metadata"].get("labels") or {}
            named = all(key != "metadata.name" or obj["metadata"]["name"] == name for key, name in fields)
            if named and all((labels.get(key) in values) is one_of for key, one_of, values in terms):
                yield obj

    # --- writes ---------------------------------------------------------------------------------------------

    def create(self, by: str, plural: str, namespace: str, obj: Obj) -> Obj:
        meta = obj.setdefault("metadata", {})
        # A controller's Lease is in another namespace than its jobs.
        if namespace in self.ending and plural != "leases":
            name = meta.get("name", "")
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            text = f'{plural} "{name}" is forbidden: {why}'
            raise Refusal(403, "Forbidden", text, cause="NamespaceTerminating")
        if plural == "events":
            self.events += 1
            return obj
        key = (plural, namespace, meta["name"])
        if key in self.objects:
            raise Refusal(409, "AlreadyExists", f'{plural} "{key[2]}" already exists')
        uid = str(UUID(int=self._rng.getrandbits(128), version=4))
        # What only the server may set is not taken from the request.
        for field in ("deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion"):
            meta.pop(field, None)
        meta |= {"namespace": namespace, "uid": uid, "creationTimestamp": timestamp(self._now())}
        if plural == "streamjobs":
            obj["status"] = dict(NEW_STATUS)
            self._fresh.add(uid)
            meta["generation"] = 1
        elif plural == "pods":
            obj["status"] = {"phase": "Pending"}
            obj["spec"].setdefault("terminationGracePeriodSeconds", POD_GRACE)
        elif plural == "secrets":
            text = obj.pop("stringData", {})
            encoded = {k: base64.b64encode(v.encode()).decode() for k, v in text.items()}
            obj["data"] = {**obj.get("data", {}), **encoded}
        return self._store(by, key, None, obj)

    def put(self, by: str, key: Key, given: Obj, sub: str | None = None) -> Obj:
        """Replace: all but the status, or (`sub`) the status alone."""
        old = self.get(key)
        version = given["metadata"].get("resourceVersion")
        if version is None and key[0] == "streamjobs":
            raise Refusal(422, "Invalid", "metadata.resourceVersion: must be specified for an update")
        self._check_version(old, version)
        if sub == "status":
            new = {**old, "status": given.get("status")}
        else:
            new = {**given, "status": old.get("status")}
            kept: tuple[str, ...] = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp")
            kept += ("deletionGracePeriodSeconds", "generation")
            meta = {k: v for k, v in given["metadata"].items() if k not in kept}
            new["metadata"] = meta | {k: old["metadata"][k] for k in kept if k in old["metadata"]}
        return self._replace(by, key, old, new)

    def patch(self, by: str, key: Key, patch: Obj, sub: str | None = None) -> Obj:
        """A JSON merge patch."""
        old = self.get(key)
        self._check_version(old, (patch.get("metadata") or {}).get("resourceVersion"))
        merged = merge(old, patch)
        given = {"metadata": old["metadata"], "status": merged.get("status")} if sub else merged
        given = {**given, "metadata": {**given["metadata"], "resourceVersion": None}}
        return self._replace(by, key, old, self._patched(old, given, sub))

    def apply(self, by: str, key: Key, body: Obj, *, force: bool) -> tuple[int, Obj]:
        """Server-side apply of the only manager that applies: all fields of the spec are its own."""
        old = self.objects.get(key)
        version = body["metadata"].pop("resourceVersion", None)
        if old is None:
            if version is not None:
                raise Refusal(409, "Conflict", "the object has been deleted")
            self._authorize_creation(key)
            return 201, self.create(by, key[0], key[1], body)
        self._check_version(old, version)
        if not force and (old["spec"] != body["spec"]):
            raise Refusal(409, "Conflict", "conflict with another manager")
        fields = ("labels", "annotations", "ownerReferences")
        meta = {k: v for k, v in old["metadata"].items() if k not in fields}
        meta |= {k: body["metadata"][k] for k in fields if k in body["metadata"]}
        return 200, self._replace(by, key, old, {**old, **body, "metadata": meta})

    def delete(self, by: str, key: Key, options: Obj) -> Obj:
        old = self.get(key)
        meta = old["metadata"]
        wanted = options.get("preconditions") or {}
        if wanted.get("uid", meta["uid"]) != meta["uid"]:
            raise Refusal(409, "Conflict", "Precondition failed: UID")
        self._check_version(old, wanted.get("resourceVersion"))
        grace, asked = self._grace(key, old, options.get("gracePeriodSeconds")), self._now()
        if "deletionTimestamp" in meta:
            # Only ever sooner, and only if it is said; that its container has ended meanwhile is for the
            # kubelet to say.
            given, before = options.get("gracePeriodSeconds"), meta["deletionGracePeriodSeconds"]
            if given is None or given >= before:
                return old
            grace, asked = given, moment(meta["deletionTimestamp"]) - timedelta(seconds=before)
            if asked + timedelta(seconds=grace) < self._now():
                grace, asked = (
                    min(grace, 1),
                    self._now() - timedelta(seconds=min(grace, 1)),
                )  # never in the past
        if grace == 0 and not meta.get("finalizers"):
            return self._remove(by, key, old)
        marked = {
            **meta,
            "deletionTimestamp": timestamp(asked + timedelta(seconds=grace)),
            "deletionGracePeriodSeconds": grace,
        }
        if "generation" in meta and "deletionTimestamp" not in meta:
            marked["generation"] += 1
        return self._store(by, key, old, {**old, "metadata": marked})

    # --- rules ----------------------------------------------------------------------------------------------

    @staticmethod
    def _grace(key: Key, pod: Obj, asked: int | None) -> int:
        if key[0] != "pods" or "nodeName" not in pod["spec"]:
            return 0
        if pod["status"].get("phase") in ("Succeeded", "Failed"):
            return 0
        return pod["spec"]["terminationGracePeriodSeconds"] if asked is None else asked

    @staticmethod
    def _check_version(old: Obj, version: str | None) -> None:
        if version not in (None, "", old["metadata"]["resourceVersion"]):
            raise Refusal(409, "Conflict", "the object has been modified")

    @staticmethod
    def _patched(old: Obj, given: Obj, sub: str | None) -> Obj:
        if sub == "status":
            return {**old, "status": given.get("status")}
        meta = {**given["metadata"], "resourceVersion": old["metadata"]["resourceVersion"]}
        return {**given, "metadata": meta, "status": old.get("status")}

    def _replace(self, by: str, key: Key, old: Obj, new: Obj) -> Obj:
        meta = {**new["metadata"], "resourceVersion": old["metadata"]["resourceVersion"]}
        if new.get("status") is None:
            new = {k: v for k, v in new.items() if k != "status"}
        if not meta.get("finalizers"):
            meta.pop("finalizers", None)
        new = {**new, "metadata": meta}
        if key[0] == "streamjobs":
            self._admit(old, new)
            if _but_metadata(old) != _but_metadata(new):
                meta["generation"] = old["metadata"]["generation"] + 1
        if new == old and meta["uid"] not in self._fresh:
            return old  # nothing changes: no new version either
        # A pod goes only when its kubelet has set its grace to zero.
        leaves = "deletionTimestamp" in meta and not meta.get("deletionGracePeriodSeconds")
        if leaves and "finalizers" not in meta:
            return self._remove(by, key, old)
        return self._store(by, key, old, new)

    @staticmethod
    def _admit(old: Obj, new: Obj) -> None:
        """The rules of the CRD that a user of this world can run into."""
        before, after = old["spec"].get("state", "Running"), new["spec"].get("state", "Running")
        if before == "Drained" and after not in ("Drained", "Cancelled"):
            raise Refusal(422, "Invalid", "spec: a drain is an end and is not taken back")
        added = set(new["metadata"].get("finalizers", ())) - set(old["metadata"].get("finalizers", ()))
        if added and "deletionTimestamp" in old["metadata"]:
            raise Refusal(422, "Invalid", "metadata.finalizers: no new finalizers while being deleted")

    def _store(self, by: str, key: Key, old: Obj | None, new: Obj) -> Obj:
        self._version += 1
        new = {**new, "metadata": {**new["metadata"], "resourceVersion": str(self._version)}}
        if old is not None:
            self._fresh.discard(new["metadata"]["uid"])
        self.objects[key] = new
        self._changed(Change(by, key, old, new))
        return new

    def _remove(self, by: str, key: Key, old: Obj) -> Obj:
        self._version += 1
        del self.objects[key]
        self._changed(Change(by, key, old, None))
        return old

    # --- for the models -------------------------------------------------------------------------------------

    def dependents(self, uid: str) -> list[tuple[Key, Obj]]:
        """What garbage collection takes when the owner is gone."""
        return [
            (key, obj)
            for key, obj in self.objects.items()
            if any(o["uid"] == uid for o in obj["metadata"].get("ownerReferences") or ())
        ]

    def drivers(self) -> list[Obj]:
        """Their pods; the others are executors."""
        return [p for p in self.of_kind("pods") if is_a_driver(p)]

    def of_kind(self, plural: str) -> list[Obj]:
        return [obj for (kind, _, _), obj in self.objects.items() if kind == plural]


def is_a_driver(pod: Obj) -> bool:
    return bool(pod["metadata"]["labels"]["streamjob.dev/component"] == "driver")


@lru_cache(maxsize=4096)
def _parsed(path: str) -> tuple[Any, ...] | None:
    """Group, namespace, plural, name, subresource, query; the same few are asked for again and again."""
    url = urlsplit(path)
    found = PATH.fullmatch(url.path)
    return (*(unquote(x) if x else x for x in found.groups()), parse_qs(url.query)) if found else None


def _but_metadata(obj: Obj) -> Obj:
    return {k: v for k, v in obj.items() if k not in NOT_METADATA}


def merge(base: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(base) if isinstance(base, dict) else {}
    for k, v in patch.items():
        if v is None:
            merged.pop(k, None)
        else:
            merged[k] = merge(merged.get(k), v)
    return merged
