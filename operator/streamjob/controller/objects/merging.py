"""Merges one pod template over another."""

from __future__ import annotations

from typing import Any


def merge(base: Any, over: Any) -> Any:
    """Merge `over` onto `base`: objects by field, lists of named entries by name. The rest is replaced."""
    if isinstance(base, dict) and isinstance(over, dict):
        return {**base, **{k: merge(base[k], v) if k in base else v for k, v in over.items()}}
    if isinstance(base, list) and isinstance(over, list):
        key = _key([*base, *over])
        if key is None:
            return over
        found = {x[key]: x for x in base}
        for x in over:
            # Reinsert at the end: an environment variable may refer only to earlier ones.
            known = found.pop(x[key], None)
            # A variable has either `value` or `valueFrom`: merging two of them could produce both.
            whole = known is None or "value" in x or "valueFrom" in x
            found[x[key]] = x if whole else merge(known, x)
        return list(found.values())
    return over


def _key(items: list[Any]) -> str | None:
    """The field that identifies the entries of a list: `mountPath`, else `name`; None without either."""
    for key in ("mountPath", "name"):
        if all(isinstance(x, dict) and key in x for x in items):
            return key
    return None
