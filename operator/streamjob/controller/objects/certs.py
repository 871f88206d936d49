"""Generates a job's own secrets: a token, and a self-signed certificate that the controller pins."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ...protocol.messages.commands import TLS_NAME

# The certificate is pinned and lives as long as its job: nothing renews it for a driver that runs for years.
VALIDITY = timedelta(days=365 * 20)
CLOCK_SKEW = timedelta(days=1)


@dataclass(frozen=True)
class Material:
    token: str = field(repr=False)
    certificate: str
    key: str = field(repr=False)


def new(now: datetime) -> Material:
    """Create new material. The certificate is valid from a day before `now`, because clocks differ."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, TLS_NAME)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + VALIDITY)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(TLS_NAME)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Material(
        token=secrets.token_urlsafe(32),
        certificate=certificate.public_bytes(Encoding.PEM).decode(),
        key=key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode(),
    )
