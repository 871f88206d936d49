"""The engine of a driver: events in, effects out. It decides when tasks end and which checkpoints are taken.

`coordinator` handles the events. `termination` orders the ends of tasks along the edges and `closing` what
follows after them, over the tasks in `roster` and their `counters`. The room `checkpoints` decides which
checkpoints are taken. The driver's event loop calls the engine under its lock.
"""
