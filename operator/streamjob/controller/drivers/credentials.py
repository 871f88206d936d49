"""What the controller shows to a driver, and what it accepts of it: read from the job's Secret."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field

from ...protocol.errors import StreamJobError
from ..api_server.kube import Kube
from ..objects import names


@dataclass(frozen=True)
class DriverCredentials:
    """The job's Secret: the token that we show and the certificate (PEM) that we accept."""

    token: str = field(repr=False)
    certificate: str


class SecretMissing(StreamJobError):
    """The job's Secret was deleted or changed while its driver uses it."""

    reason = "ControlSecretMissing"
    retryable = True


async def read_credentials(kube: Kube, namespace: str, job: str) -> DriverCredentials:
    """Read the job's Secret.

    :returns: the token and the certificate (PEM).
    :raises SecretMissing: the Secret is missing, or one of the two cannot be read from it.
    """
    name = names.control_secret(job)
    secret = await kube.get_secret(namespace, name)
    try:
        found = (secret or {}).get("data") or {}
        data = {k: base64.b64decode(found[k]).decode() for k in (names.TOKEN_KEY, names.CERTIFICATE_KEY)}
    except (KeyError, ValueError):
        raise SecretMissing(
            f"the Secret {name} is gone or has been changed",
            remedy="Delete it if it is there, and the driver's pod: another epoch gets a new one",
        ) from None
    return DriverCredentials(data[names.TOKEN_KEY].strip(), data[names.CERTIFICATE_KEY])
