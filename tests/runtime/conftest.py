"""A control endpoint with a real certificate, and a client that speaks to it as the controller does."""

from __future__ import annotations

import datetime
import http.client
import json
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from streamjob.protocol.messages.commands import TERM_HEADER, TLS_NAME
from streamjob.runtime.process.config import Credentials


@pytest.fixture
def credentials(tmp_path: Path) -> Credentials:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, TLS_NAME)])
    now = datetime.datetime.now(datetime.timezone.utc)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(minutes=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(TLS_NAME)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (tmp_path / "tls.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (tmp_path / "tls.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return Credentials("s3cret-token", tmp_path / "tls.crt", tmp_path / "tls.key")


@dataclass
class Client:
    port: int
    credentials: Credentials

    def connection(self) -> http.client.HTTPSConnection:
        context = ssl.create_default_context(cafile=str(self.credentials.certificate))
        context.check_hostname = False
        return http.client.HTTPSConnection("127.0.0.1", self.port, context=context, timeout=60)

    def call(self, method: str, path: str, body: Any = None, **how: Any) -> tuple[int, Any]:
        """The status code and the parsed body. The rest is as in `answer`."""
        answer = self.answer(method, path, body, **how)
        return answer.status, json.loads(answer.read())

    def answer(
        self,
        method: str,
        path: str,
        body: Any = None,
        token: str | None = None,
        term: str | None = "1",
        **further: str,
    ) -> http.client.HTTPResponse:
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        headers = {**further, "Authorization": f"Bearer {token or self.credentials.token}"}
        if term is not None:
            headers[TERM_HEADER] = term
        connection = self.connection()
        connection.request(method, path, data, headers)
        return connection.getresponse()
