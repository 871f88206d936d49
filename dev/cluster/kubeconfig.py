"""Write kubeconfigs. They contain the certificates, so that a copy of the file works elsewhere."""

import base64
import json
from pathlib import Path

from dev.cluster.api import PORT
from dev.cluster.layout import Layout


def write(layout: Layout, address: str, party: str, path: Path) -> None:
    """Write the kubeconfig of a party that has a certificate. It is JSON, which is valid YAML."""

    def data(name: str) -> str:
        return base64.b64encode((layout.certs / name).read_bytes()).decode()

    name = "streamjob"
    cluster = {"server": f"https://{address}:{PORT}", "certificate-authority-data": data("ca.crt")}
    user = {"client-certificate-data": data(f"{party}.crt"), "client-key-data": data(f"{party}.key")}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": party, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": party}}],
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(content, indent=1) + "\n")
