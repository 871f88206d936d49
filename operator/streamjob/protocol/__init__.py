"""The heart: what StreamJob promises, without I/O, clock or threads. Standard library only.

`lifecycle` is the table of states, `coordinator` the engine that runs it, `records` the shapes that a completed
checkpoint takes everywhere, `manifest` and `index` their durable forms, `messages` what driver and controller say.
"""
