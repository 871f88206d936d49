"""Paths of the Kubernetes API, as a Role names them."""

from __future__ import annotations

import pytest

from streamjob.controller.api_server import paths


@pytest.mark.parametrize(
    ("method", "path", "named"),
    [
        ("GET", "/apis/streamjob.dev/v1alpha1/namespaces/a/streamjobs/orders", ("get", "streamjobs")),
        ("GET", "/apis/streamjob.dev/v1alpha1/namespaces/a/streamjobs", ("list", "streamjobs")),
        ("GET", "/apis/streamjob.dev/v1alpha1/streamjobs", ("list", "streamjobs")),
        (
            "PUT",
            "/apis/streamjob.dev/v1alpha1/namespaces/a/streamjobs/orders/status",
            ("update", "streamjobs/status"),
        ),
        ("PATCH", "/apis/streamjob.dev/v1alpha1/namespaces/a/streamjobs/orders", ("patch", "streamjobs")),
        ("GET", "/api/v1/namespaces/namespaces/pods?labelSelector=x/y", ("list", "pods")),
        ("GET", "/api/v1/pods?labelSelector=x/y", ("list", "pods")),
        ("POST", "/api/v1/namespaces/a/secrets", ("create", "secrets")),
        ("DELETE", "/api/v1/namespaces/a/pods/p", ("delete", "pods")),
        ("PUT", "/apis/coordination.k8s.io/v1/namespaces/a/leases/l", ("update", "leases")),
    ],
)
def test_calls_are_named_as_roles_name_them(method: str, path: str, named: tuple[str, str]) -> None:
    assert paths.verb_and_resource(method, path) == named
