"""A deterministic world for the production controller: API server, kubelet, drivers, storage and user are
models; the clock is virtual; all chance comes from a seed.

`python -m tests.world --help` says how to run and replay it, docs/architecture.md what it shows and what it
does not.
"""
