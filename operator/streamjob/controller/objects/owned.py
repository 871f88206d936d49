"""Objects that a job owns besides its pods: the Secret and the index."""

from __future__ import annotations

from ...api import GROUP, KIND, VERSION, StreamJob
from ...protocol.formats import index as indices
from ...protocol.formats.index import Index
from . import Obj, names
from .certs import Material


def secret(job: StreamJob, material: Material) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _owned(job, names.control_secret(job.metadata.name), "control"),
        "type": "Opaque",
        "stringData": {
            names.TOKEN_KEY: material.token,
            names.CERTIFICATE_KEY: material.certificate,
            names.PRIVATE_KEY_KEY: material.key,
        },
    }


def config_map(job: StreamJob, index: Index, version: str | None) -> Obj:
    """Build the ConfigMap of the index, with the term of the controller in charge of the job.

    :param version: the resourceVersion that it replaces, None to create it.
    """
    meta = _owned(job, names.index_config_map(job.metadata.name), "checkpoints")
    meta["annotations"] = {names.ANNOTATION_TERM: str(job.status.term)}
    if version is not None:
        meta["resourceVersion"] = version
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": meta,
        "data": {indices.KEY: indices.dumps(index)},
    }


def owner(job: StreamJob) -> Obj:
    """Build the owner reference to the job: Kubernetes deletes the object after the job."""
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": KIND,
        "name": job.metadata.name,
        "uid": job.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }


def is_owned(found: Obj, job: StreamJob) -> bool:
    """Whether an object that the API server has is this job's, and not that of an earlier one of its name."""
    return (found["metadata"].get("labels") or {}).get(names.LABEL_UID) == job.metadata.uid


def _owned(job: StreamJob, name: str, component: str) -> Obj:
    return {
        "name": name,
        "namespace": job.metadata.namespace,
        "labels": {**names.common_labels(job, component), **names.labels(job)},
        "ownerReferences": [owner(job)],
    }
