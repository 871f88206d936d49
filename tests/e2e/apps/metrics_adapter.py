"""An adapter of external metrics: it serves one metric, whose value is in a file.

metrics_adapter.py CERTIFICATE KEY VALUE
"""

import json
import ssl
import sys
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

GROUP = "external.metrics.k8s.io/v1beta1"


class Adapter(BaseHTTPRequestHandler):
    value = Path()

    def do_GET(self) -> None:
        parts = self.path.partition("?")[0].strip("/").split("/")
        if parts[:3] != ["apis", *GROUP.split("/")]:
            self.send_error(404)
            return
        if len(parts) == 3:
            metric = {"name": "lag", "namespaced": True, "kind": "ExternalMetricValueList", "verbs": ["get"]}
            body: dict[str, object] = {
                "kind": "APIResourceList",
                "apiVersion": "v1",
                "groupVersion": GROUP,
                "resources": [metric],
            }
        else:
            now = datetime.now(timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")
            item = {"metricName": parts[-1], "timestamp": now, "value": self.value.read_text().strip()}
            body = {"kind": "ExternalMetricValueList", "apiVersion": GROUP, "metadata": {}, "items": [item]}
        text = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


def main(certificate: str, key: str, value: str) -> None:
    Adapter.value = Path(value)
    server = ThreadingHTTPServer(("", 6443), Adapter)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
