"""The protocol: what StreamJob promises, as pure code. No I/O, no clock, no threads; standard library only.

`lifecycle` holds the state tables, and `coordinator` is the engine that applies them. `ending` orders task
terminations along the edges of the `graph`; `flow` keeps the counters for that. `flight` decides which
checkpoints to take and tracks the pending ones; `checkpoints` and `barriers` define a single checkpoint.
`finished` and `recovery` decide what starts from a checkpoint; `adoption` makes a checkpoint of a bare Spark
directory. `records` defines the shape of a completed checkpoint, `manifest` and `index` define its durable
forms, and `messages` defines what controller and driver exchange.
"""
