"""The driver specification: the part of the spec whose change requires a new driver."""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache

from pydantic import Field, ValidationError

from .deps import Deps
from .pods.executor import Executor
from .program import Application, Driver, ImagePullPolicy, ImagePullSecret
from .spec import Runtime, Spec
from .storage import Volume, VolumeMount
from .types import Model
from .ui.access import Ui

LIMIT = 128 << 10  # characters; all annotations of a pod together may have 256 KiB


class Specification(Model):
    """Image, application, dependencies, configuration, resources, volumes, and the prefix of the UI's links.

    The rest of the spec restarts nothing: it concerns the controller only, or takes effect with the next
    epoch (`checkpoint`, `termination.gracePeriod`).

    A standby (`driver.standby`) is not part of it: it is another driver.

    The numbers of executors are in it for a rollback that needs them, but two specifications that differ in
    nothing else are equal: the running driver changes the number by itself.
    """

    image: str
    image_pull_policy: ImagePullPolicy | None = None
    runtime: Runtime = Runtime.INJECTED
    image_pull_secrets: tuple[ImagePullSecret, ...] = ()
    application: Application
    deps: Deps = Field(default_factory=Deps)
    spark_conf: dict[str, str] = Field(default_factory=dict)
    driver: Driver = Field(default_factory=Driver)
    executor: Executor = Field(default_factory=Executor)
    volumes: tuple[Volume, ...] = ()
    volume_mounts: tuple[VolumeMount, ...] = ()
    proxy_base: str = ""

    @classmethod
    def of(cls, spec: Spec) -> Specification:
        return cls(
            proxy_base=spec.ui.proxy_base if spec.ui is not None else "",
            **{name: getattr(spec.storage, name) for name in _OF_STORAGE},
            **{name: getattr(spec, name) for name in _OF_SPEC},
            driver=spec.driver.model_copy(update={"standby": False}),
        )

    def onto(self, spec: Spec) -> Spec:
        """`spec` with its own driver specification replaced by this one.

        The numbers of executors stay those of `spec` where they fit.
        """
        storage = spec.storage.model_copy(update={name: getattr(self, name) for name in _OF_STORAGE})
        update = {"storage": storage, **{name: getattr(self, name) for name in _OF_SPEC}}
        update["driver"] = self.driver.model_copy(update={"standby": spec.driver.standby})
        update["executor"] = self.executor.with_numbers_of(spec.executor)
        update["ui"] = Ui.behind(self.proxy_base)
        return spec.model_copy(update=update)

    def __eq__(self, other: object) -> bool:
        """Whether one driver serves for both."""
        return isinstance(other, Specification) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)

    @property
    def identity(self) -> str:
        """The text without the numbers of executors."""
        return self.model_copy(update={"executor": self.executor.without_numbers}).text

    @property
    def text(self) -> str:
        """Canonical JSON: equal specifications have equal text. Defaults are left out, so that a field added
        in a later version does not change the text of existing specifications.
        """
        return json.dumps(self.model_dump(mode="json", by_alias=True, exclude_defaults=True), sort_keys=True)

    @classmethod
    def parse(cls, text: str | None) -> Specification | None:
        """The specification, or None if there is none or another version of the operator wrote an unreadable
        one.
        """
        return _parsed(text) if text else None


@lru_cache(maxsize=64)
def _parsed(text: str) -> Specification | None:
    """Cached, because every reconcile reads the pod's annotation."""
    try:
        return Specification.model_validate_json(text)
    except ValidationError:
        return None


_OF_STORAGE = ("volumes", "volume_mounts")
_ELSEWHERE = (*_OF_STORAGE, "proxy_base", "driver")
_OF_SPEC = tuple(name for name in Specification.model_fields if name not in _ELSEWHERE)


def digest(spec: Spec) -> str:
    """Identifies an attempt to run a specification. Includes `restart.nonce`, whose change requests another
    attempt.
    """
    return _digest(Specification.of(spec).identity, spec)


def same_attempt(recorded: str | None, spec: Spec) -> bool:
    """Whether a recorded digest is that of `spec`. Earlier operators included the numbers of executors."""
    return recorded in (digest(spec), _digest(Specification.of(spec).text, spec))


def _digest(text: str, spec: Spec) -> str:
    return hashlib.sha256(f"{text} {spec.restart.nonce}".encode()).hexdigest()[:16]
