"""The credentials for a driver: read from the job's Secret, and never printed."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest

from streamjob.controller.drivers.credentials import DriverCredentials, SecretMissing, read_credentials
from streamjob.controller.objects import certs


class Secrets:
    def __init__(self, secret: Any) -> None:
        self.secret = secret

    async def get_secret(self, namespace: str, name: str) -> Any:
        return self.secret


@pytest.mark.parametrize(
    "secret",
    [
        pytest.param(None, id="gone"),
        pytest.param({"data": None}, id="emptied"),
        pytest.param({"data": {"token": "eA=="}}, id="without its certificate"),
        pytest.param({"data": {"token": "x", "tls.crt": "eA=="}}, id="no base64"),
        pytest.param({"data": {"token": "/w==", "tls.crt": "eA=="}}, id="no text"),
    ],
)
async def test_a_secret_that_cannot_be_used_is_named_in_the_error(secret: Any) -> None:
    """Any other error would end the driver's long poll permanently."""
    with pytest.raises(SecretMissing, match="orders-control"):
        await read_credentials(Secrets(secret), "shop", "orders")  # type: ignore[arg-type]


def test_no_secret_is_printed() -> None:
    material = certs.new(datetime.now(timezone.utc))
    shown = f"{material} {DriverCredentials(material.token, material.certificate)}"
    assert material.token not in shown
    assert "PRIVATE KEY" not in shown
