"""The controller: whatever woke it, it observes afresh, decides (pure), acts.

`triggers` (kopf) only wake → `reconciler` runs one short task per job: `observe` → `decide` → status, then `act`.
`kube` is the only module that talks to Kubernetes, `drivers` the only one that talks to drivers.
"""
