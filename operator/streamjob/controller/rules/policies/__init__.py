"""The rules of `decide` by topic: index, restarts, terminal states, savepoints, upgrades, escalation.

A rule is a function `(Context) -> Decision | None`. Called by `decide` only, and by each other. Pure.
"""
