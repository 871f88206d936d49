"""The controller: whatever event arrives, it observes the current state, decides (pure), and acts.

`triggers` (kopf) only enqueue jobs. `reconciler` runs one short task per job: `observe` → `decide` → write
the status, then `act`. Only `kube` calls the Kubernetes API (kopf watches it); only `drivers` and `line` talk
to drivers.
"""
