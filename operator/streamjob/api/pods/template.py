"""The pod templates of drivers and executors: Kubernetes' own schema, with rules about the fields that are
not the user's.

Kubernetes' rules see only fields that a schema names, so the schema names exactly those that a rule is about.
"""

from __future__ import annotations

from typing import Any

from ..types import ANYTHING, cel

Schema = dict[str, Any]
Rule = tuple[str, str]

TEXT: Schema = {"type": "string"}
OPEN: Schema = {"type": "object", **ANYTHING}
# Paths in the pods at which the operator mounts something.
TAKEN_PATHS = ("/tmp", "/var/run/streamjob", "/var/run/streamjob-index", "/opt/streamjob")  # noqa: S108
SPARK_LABELS = (
    "spark-role",
    "spark-app-selector",
    "spark-app-name",
    "spark-exec-id",
    "spark-exec-resourceprofile-id",
)
OURS = "streamjob.dev/"
WHOLE = "As in a pod, with all its fields. Only those that a rule is about are listed here."
MOST = 32  # containers, and volumes, of a template


def pod_template(
    container: str, *, not_in_spec: dict[str, str], not_in_container: dict[str, str], more: tuple[Rule, ...]
) -> Schema:
    """`json_schema_extra` for the field of a template.

    :param container: the name of Spark's own container.
    :param not_in_spec: fields of the pod's spec that must not be set, and why.
    :param not_in_container: the same for Spark's container.
    :param more: further rules for a container.
    """
    names = ", ".join(map(repr, SPARK_LABELS))
    metadata = _object(
        {
            **dict.fromkeys(("name", "namespace", "generateName"), TEXT),
            "ownerReferences": {"type": "array", "items": OPEN},
            "labels": _strings(
                (
                    f"self.all(k, !k.startsWith('{OURS}') && !(k in [{names}]))",
                    f"labels must not set {OURS}* and what Spark sets: {', '.join(SPARK_LABELS)}",
                )
            ),
            "annotations": _strings(
                (f"self.all(k, !k.startsWith('{OURS}'))", f"annotations must not set {OURS}*")
            ),
        },
        *_unset(dict.fromkeys(("name", "namespace", "generateName", "ownerReferences"), "the operator's")),
    )
    spec = _object(
        {
            **{field: _kind(field) for field in not_in_spec},
            "containers": _list(_container(container, not_in_container, more)),
            "volumes": _list(
                _object(
                    {"name": {"type": "string", "maxLength": 63}},
                    (
                        "!self.name.startsWith('streamjob-')",
                        "volumes: names that begin with streamjob- are taken",
                    ),
                    required="name",
                )
            ),
        },
        *_unset(not_in_spec),
    )
    return {k: v for k, v in _object({"metadata": metadata, "spec": spec}).items() if k != "description"}


def _container(name: str, unset: dict[str, str], more: tuple[Rule, ...]) -> Schema:
    paths = ", ".join(map(repr, TAKEN_PATHS))
    mine = f"self.name == '{name}'"
    rules = [
        (f"{mine} || has(self.image)", f"a container without an image; Spark's own is named {name!r}"),
        *(
            (f"!({mine}) || {rule}", f"container {name}: {message}")
            for rule, message in (*_unset(unset), *more)
        ),
        (
            f"!({mine}) || !has(self.volumeMounts) || self.volumeMounts.all(m, !(m.mountPath in [{paths}]))",
            f"container {name}: volumeMounts must not take {', '.join(TAKEN_PATHS)}",
        ),
        (
            f"!({mine}) || !has(self.env) || self.env.all(e, !e.name.startsWith('STREAMJOB_') && "
            "!(e.name in ['POD_IP', 'POD_NAME']))",
            f"container {name}: env: STREAMJOB_*, POD_IP and POD_NAME are set by the operator",
        ),
    ]
    amounts = {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": True, **TEXT}}
    return _object(
        {
            "name": {"type": "string", "maxLength": 63},
            "image": TEXT,
            **{field: _kind(field) for field in unset},
            "volumeMounts": _list(
                _object({"mountPath": {"type": "string", "maxLength": 1024}}, required="mountPath"), 64
            ),
            "env": _list(_object({"name": {"type": "string", "maxLength": 253}}, required="name"), 256),
            "resources": _object({"requests": amounts, "limits": amounts}),
        },
        *rules,
        required="name",
    )


def _kind(field: str) -> Schema:
    lists: Schema = {"type": "array", "items": TEXT}
    kinds = {
        "args": lists,
        "command": lists,
        "lifecycle": OPEN,
        "terminationGracePeriodSeconds": {"type": "integer"},
        "automountServiceAccountToken": {"type": "boolean"},
    }
    return kinds.get(field, TEXT)


def _unset(fields: dict[str, str]) -> list[Rule]:
    return [(f"!has(self.{field})", f"{field} must not be set, it is {why}") for field, why in fields.items()]


def _object(properties: Schema, *rules: Rule, required: str = "") -> Schema:
    schema: Schema = {"type": "object", "description": WHOLE, "properties": properties, **ANYTHING}
    return schema | (cel(*rules) if rules else {}) | ({"required": [required]} if required else {})


def _list(items: Schema, most: int = MOST) -> Schema:
    return {"type": "array", "items": items, "maxItems": most}


def _strings(rule: Rule) -> Schema:
    return {"type": "object", "additionalProperties": TEXT, "maxProperties": 128, **cel(rule)}


DRIVER = pod_template(
    "driver",
    not_in_spec={
        "restartPolicy": "Never: a restart is a new epoch",
        "serviceAccountName": "spec.driver.serviceAccountName",
        "terminationGracePeriodSeconds": "spec.termination.gracePeriod",
        "automountServiceAccountToken": "set where the driver needs a token",
    },
    not_in_container={
        "image": "spec.image",
        "args": "the operator's; the program's are spec.application.args",
        "terminationMessagePath": "the operator's",
        "terminationMessagePolicy": "the operator's",
    },
    more=(),
)
EXECUTOR = pod_template(
    "executor",
    not_in_spec={"restartPolicy": "Never: Spark replaces an executor"},
    not_in_container={
        "image": "spec.image",
        "command": "Spark's",
        "args": "Spark's",
        "lifecycle": "Spark's: an executor is decommissioned before its end",
    },
    more=(
        (
            "!has(self.resources) || !has(self.resources.requests) || "
            "!('cpu' in self.resources.requests || 'memory' in self.resources.requests)",
            "resources.requests: cpu and memory follow from spec.executor.cores and memory",
        ),
        (
            "!has(self.resources) || !has(self.resources.limits) || !('memory' in self.resources.limits)",
            "resources.limits: memory follows from spec.executor.memory",
        ),
    ),
)
