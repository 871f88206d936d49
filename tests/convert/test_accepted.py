"""A real API server accepts what the converter writes, with every rule of the resource."""

from __future__ import annotations

import asyncio
import copy
import os
from collections.abc import AsyncIterator

import pytest
from kubernetes.aio import client, config

from streamjob.convert.draft import Places
from streamjob.convert.source import Kind

from .inputs import Obj, applications, as_python, convert, files, kubeflow, read
from .test_fields import RESOURCES, converted

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(not os.environ.get("KUBECONFIG"), reason="KUBECONFIG names no cluster (make cluster)"),
]
Resource = tuple[str, str, str, str]
STREAMJOBS: Resource = ("streamjob.dev", "v1alpha1", "default", "streamjobs")


@pytest.fixture
async def objects(defined: None) -> AsyncIterator[client.CustomObjectsApi]:
    await config.load_kube_config(context=os.environ.get("CLUSTER") or None)
    async with client.ApiClient() as connection:
        yield client.CustomObjectsApi(connection)


HOST = "spec.ui.ingress.host"


async def refusals(objects: client.CustomObjectsApi, jobs: list[tuple[str, Obj]]) -> list[str]:
    """What the API server says to each job. Nothing is stored."""
    limit = asyncio.Semaphore(8)

    async def apply(name: str, job: Obj) -> str:
        body = copy.deepcopy(job)
        body["metadata"].pop("namespace", None)
        async with limit:
            try:
                await objects.create_namespaced_custom_object(
                    *STREAMJOBS, body, dry_run="All", field_validation="Strict"
                )
            except client.ApiException as e:
                return f"{name}: {e.body}"
        return ""

    return [text for text in await asyncio.gather(*(apply(n, j) for n, j in jobs)) if text]


async def test_the_examples_and_our_own_are_accepted(objects: client.CustomObjectsApi) -> None:
    documents = [(name, as_python(document)) for name, document in applications()]
    documents += [(path.stem, read(path)[0]) for path in files("own")]
    jobs = []
    for name, document in documents:
        job = convert(document).objects[-1]
        jobs.append((name, {**job, "spec": {"image": "decided:1", **job["spec"]}}))
    assert len(jobs) == 78
    assert await refusals(objects, jobs) == []


@pytest.mark.only_if_changed("operator/streamjob/convert", "operator/streamjob/api", "crds", "tests/convert")
@pytest.mark.parametrize("name", RESOURCES)
async def test_each_field_is_accepted(objects: client.CustomObjectsApi, name: str) -> None:
    """Each result once, of the thousands of inputs with one field."""
    results = {
        str(c.objects[-1]["spec"]): (path, c.objects[-1]) for path, _, c in converted(name) if c.objects
    }
    hosts = {path for path, _, c in converted(name) if any(e.to == HOST for e in c.of_kind(Kind.DECIDE))}
    assert bool(hosts) == (name == "kubeflow-v1beta2")
    jobs = []
    for path, found in results.values():
        job = copy.deepcopy(found)
        if path in hosts:
            assert "neither host nor path" in str(await refusals(objects, [(path, job)]))
            job["spec"]["ui"]["ingress"]["host"] = "decided.example.com"
        jobs.append((path, job))
    assert await refusals(objects, jobs) == []


async def test_what_is_to_decide_is_refused_until_it_is_decided(objects: client.CustomObjectsApi) -> None:
    job = convert_undecided()
    (refusal,) = await refusals(objects, [("orders", job)])
    assert "spec.storage" in refusal
    assert "Required value" in refusal


def convert_undecided() -> Obj:
    from streamjob.convert.conversion import convert_all

    (conversion,) = convert_all([kubeflow()], Places())
    return conversion.objects[-1]
