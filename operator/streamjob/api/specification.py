"""What a driver is made from: the part of the spec whose change needs another driver."""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache

from pydantic import Field, ValidationError

from .program import Application, Driver, Executor, ImagePullPolicy
from .spec import Spec
from .storage import Volume
from .types import Model

LIMIT = 128 << 10  # characters; a pod's annotations may have 256 KiB together


class Specification(Model):
    """Image, application, configuration, resources and volumes. All else of the spec is the controller's, or is read anew with
    the next epoch (`checkpoint`, `termination.gracePeriod`), and restarts nothing."""

    image: str
    image_pull_policy: ImagePullPolicy | None = None
    application: Application
    spark_conf: dict[str, str] = Field(default_factory=dict)
    driver: Driver = Field(default_factory=Driver)
    executor: Executor = Field(default_factory=Executor)
    volumes: tuple[Volume, ...] = ()

    @classmethod
    def of(cls, spec: Spec) -> Specification:
        return cls(volumes=spec.storage.volumes, **{name: getattr(spec, name) for name in _BESIDE_VOLUMES})

    def onto(self, spec: Spec) -> Spec:
        """`spec` with this in the place of its own."""
        storage = spec.storage.model_copy(update={"volumes": self.volumes})
        return spec.model_copy(
            update={"storage": storage, **{name: getattr(self, name) for name in _BESIDE_VOLUMES}}
        )

    @property
    def text(self) -> str:
        """As JSON, the same for what is equal. Without defaults, so that a field that comes later changes nothing."""
        return json.dumps(self.model_dump(mode="json", by_alias=True, exclude_defaults=True), sort_keys=True)

    @classmethod
    def parse(cls, text: str | None) -> Specification | None:
        """None if there is none, or if another version of the operator wrote what this one cannot read."""
        return _parsed(text) if text else None


@lru_cache(maxsize=64)
def _parsed(text: str) -> Specification | None:
    """A pod's annotation is read each time that the job is looked at."""
    try:
        return Specification.model_validate_json(text)
    except ValidationError:
        return None


_BESIDE_VOLUMES = tuple(name for name in Specification.model_fields if name != "volumes")


def digest(spec: Spec) -> str:
    """Tells an attempt to run a specification from others. With `restart.nonce`: a change of it asks for another one."""
    said = f"{Specification.of(spec).text} {spec.restart.nonce}"
    return hashlib.sha256(said.encode()).hexdigest()[:16]
