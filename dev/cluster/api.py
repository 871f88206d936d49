"""A minimal Kubernetes client for booting the cluster: GET with the admin's certificate
and a short timeout.
"""

import http.client
import json
import ssl
from typing import Any

from dev.cluster.layout import Layout

PORT = 6443


class Api:
    def __init__(self, layout: Layout, address: str) -> None:
        self._address = address
        self._tls = ssl.create_default_context(cafile=str(layout.certs / "ca.crt"))
        self._tls.load_cert_chain(layout.certs / "admin.crt", layout.certs / "admin.key")

    def get(self, path: str) -> Any | None:
        """Return the answer, parsed if it is JSON; None if there was no answer, or an error."""
        connection = http.client.HTTPSConnection(self._address, PORT, timeout=2, context=self._tls)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            body = response.read().decode()
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()
        if response.status != 200:
            return None
        return json.loads(body) if "json" in (response.getheader("Content-Type") or "") else body

    def ready(self) -> bool:
        return self.get("/readyz") == "ok"

    def node_ready(self, name: str) -> bool:
        """Whether the node is Ready and the controllers have removed its initial taint, so that pods can run
        there.
        """
        node = self.get(f"/api/v1/nodes/{name}")
        if node is None or node["spec"].get("taints"):
            return False
        conditions = node["status"].get("conditions", [])
        return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)

    def namespace_ready(self) -> bool:
        """Whether the default service account and the certificate bundle exist: no pod
        can be created before.
        """
        account = self.get("/api/v1/namespaces/default/serviceaccounts/default")
        return (
            account is not None
            and self.get("/api/v1/namespaces/default/configmaps/kube-root-ca.crt") is not None
        )
