"""One run of one query: its task, its state and transactions, what it reads and writes, when its input ends.

`driver` and `startup` call this room. Methods that stop or drain a task run in the thread of the task's
effects.
"""
