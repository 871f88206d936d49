"""A second random tester of the engine, written from FLIP-147 alone and independent of the first one.

`plan` draws a job, `world` is what outlives a driver (directories, sinks, the index), `epoch` is one driver
with its script, `oracle` says what FLIP-147 forbids, and `run` plays a plan from its first epoch to its end.
`mistakes` has coordinators that the tester has to notice.

    python -m tests.protocol.second --seed 7                     replays one plan, with each step
    python -m tests.protocol.second --plans 20000 --seed 1       plays many, beginning with seed 1
"""
