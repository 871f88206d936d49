"""One run of one query: its task, its state and transactions, what it reads and writes, when its input ends.

Called by `driver` and `startup`. A task's methods that stop or drain it run in the thread of its effects.
"""
