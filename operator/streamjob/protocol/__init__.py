"""The heart: what StreamJob promises, without I/O, clock or threads. Standard library only.

`lifecycle` is the table of states and `coordinator` the engine that runs it: `ending` knows in which order tasks end along the
edges of the `graph` (`flow` keeps the sums), `flight` which checkpoints are under way, `checkpoints` and `barriers` what one is.
`finished` and `recovery` say what starts from a checkpoint, `adoption` makes one of a bare Spark directory. `records` are
the shapes that a completed checkpoint takes everywhere, `manifest` and `index` their durable forms, `messages` what
driver and controller say.
"""
