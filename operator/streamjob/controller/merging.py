"""A pod template on top of another."""

from __future__ import annotations

from typing import Any


def merge(base: Any, over: Any) -> Any:
    """`over` on top of `base`: objects field by field, lists of named things by name, everything else replaced."""
    if isinstance(base, dict) and isinstance(over, dict):
        return {**base, **{k: merge(base[k], v) if k in base else v for k, v in over.items()}}
    if isinstance(base, list) and isinstance(over, list):
        key = _key([*base, *over])
        if key is None:
            return over
        found = {x[key]: x for x in base}
        for x in over:
            # To the end: an environment variable may refer only to those before it.
            known = found.pop(x[key], None)
            # A variable has one of `value` and `valueFrom`: two of them cannot be merged.
            whole = known is None or "value" in x or "valueFrom" in x
            found[x[key]] = x if whole else merge(known, x)
        return list(found.values())
    return over


def _key(items: list[Any]) -> str | None:
    """By which field the entries of a list are told apart: mounts by their place, the rest by name."""
    for key in ("mountPath", "name"):
        if all(isinstance(x, dict) and key in x for x in items):
            return key
    return None
