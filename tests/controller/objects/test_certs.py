"""The certificate and the token of a job, and the Secret that holds them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from cryptography import x509

from streamjob.controller.objects import certs, owned
from streamjob.protocol.messages.commands import TLS_NAME

from ..factories import job


def test_certificate_and_token() -> None:
    now = datetime.now(timezone.utc)
    one, other = certs.new(now), certs.new(now)
    assert one.token != other.token
    assert len(one.token) >= 43
    certificate = x509.load_pem_x509_certificate(one.certificate.encode())
    assert certificate.not_valid_before_utc < now < certificate.not_valid_after_utc
    assert certificate.not_valid_after_utc - now > timedelta(days=3650)
    names_in_it = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names_in_it.get_values_for_type(x509.DNSName) == [TLS_NAME]
    made = owned.secret(job(), one)
    assert set(made["stringData"]) == {"token", "tls.crt", "tls.key"}
    assert made["metadata"]["name"] == "orders-control"
