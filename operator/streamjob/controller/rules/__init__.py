"""Decides what to do about a job. Pure: no I/O, no clock, no event loop.

`decide.decide` maps an observation (`observed`) to a status and the actions (`actions`) that follow once it
is written. `policies` holds the rules by topic. The contract "pure rooms of the controller" in pyproject.toml
keeps asyncio, the client libraries and the metrics out, also indirectly.

Called by `reconciler`; safe in any thread.
"""
