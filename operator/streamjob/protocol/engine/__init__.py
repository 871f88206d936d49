"""The engine of a driver: events in, effects out. It decides when tasks end and which checkpoints are taken.

`coordinator` handles the events. `termination` orders the ends of tasks along the edges, over the tasks in `roster`
and their `counters`. `pending_checkpoints` decides which checkpoints to take and tracks the pending ones;
`checkpoint` and `barriers` define a single one. The driver's event loop calls the engine under its lock.
"""
