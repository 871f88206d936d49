"""How the specification of a running driver differs from that of the spec: what an upgrade changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from ..errors import CommandError

Obj = dict[str, Any]


class Difference(NamedTuple):
    """A field of the specification, as JSON on both sides; None where it is not set."""

    field: str
    runs: str | None
    wanted: str | None


class UnknownSpecification(CommandError):
    """This installation does not understand the specification."""

    reason = "UnknownSpecification"


def differences(running: str, spec: Obj) -> list[Difference]:
    """The fields that differ. Empty if the running driver may stay.

    :param running: the specification in the driver's annotation.
    :raises UnknownSpecification: this version is older than the operator, or has no pydantic.
    """
    try:
        from pydantic import ValidationError  # noqa: PLC0415  slow, and needed here only

        from ...api import Spec, Specification  # noqa: PLC0415
    except ModuleNotFoundError:
        raise UnknownSpecification(
            "this installation cannot compare specifications",
            remedy="Install the release's wheel with its extra `cli`: the plugin of krew has no pydantic",
        ) from None
    try:
        before = Specification.model_validate_json(running)
        after = Specification.of(Spec.model_validate(spec))
    except ValidationError as e:
        raise UnknownSpecification(
            f"this version does not understand {'.'.join(map(str, e.errors()[0]['loc']))} of the job",
            remedy="Update `streamjob` to the operator's version",
        ) from None
    if before == after:
        return []
    old, new = dict(_leaves(json.loads(before.identity))), dict(_leaves(json.loads(after.identity)))
    names = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    return [Difference(name, old.get(name), new.get(name)) for name in names]


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Each value that is no object, by its path. A list is one value."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            name = f"{path}.{key}" if path else key
            yield from _leaves(inner, name if "." not in key else f"{path}[{key}]")
    else:
        yield path, value if isinstance(value, str) else json.dumps(value)
