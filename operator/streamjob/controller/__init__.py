"""The controller: whatever event arrives, it observes the current state, decides (pure), and acts.

Its rooms, from the top; imports go down only (ADR 25):

- `__main__`, `triggers` (kopf, which only enqueues jobs), `web` (/healthz, /metrics)
- `reconciler`: which job is due, and its reconcile: observe, decide, write the status, act
- `drivers`: connections to driver pods
- `api_server`: calls to the Kubernetes API, leader election
- `process`: logs, metrics, memory
- `rules`: decides what to do; pure
- `objects`: builds Kubernetes objects; pure
- `reports`: texts that people read; pure

Everything runs in one event loop, in the main thread.
"""
