"""PySpark scripts as users write them, and a harness that runs each of them in five ways.

    PYTHONPATH=operator python -m tests.zoo --list
    PYTHONPATH=operator python -m tests.zoo NAME [--way WAY] [--seed N] [--keep DIR]

plain     `python script`, to its end: what the other ways are measured by
runtime   `python -m streamjob.runtime --local script`, to its end: the same output, exception, exit code
stops     the same, stopped at random moments (Ctrl-C, SIGTERM) and started again; then its end or a drain
kills     the same with SIGKILL
drain     a driver as in a pod, drained at a random moment: what it read is out, open windows and timers too

After every run under the runtime the log says why the process left ("the driver exits:"), and the exit code
is the script's.

**To add a script**, write one file: scripts/NAME.py, or scripts/NAME/main.py with modules beside it. It
imports nothing of ours. It gets two arguments, the folder of its input and one for its output (a folder of
the run's own, which may hold its checkpoints too). Spark's settings (master, two shuffle partitions, UTC) are
the harness' business. Its docstring says what it shows, and after a line `[zoo]`, as TOML, what there is to
know:

    [zoo]
    before = 6                      # files of input (20 rows each) that are there when it starts
    during = 2                      # files that come while it runs, also between two starts of it
    ends = true                     # by itself; false: it runs until it is ended
    exit = 0                        # its exit code
    raises = "ValueError: broken"   # how the last line of its traceback begins
    refused = "SomeReason"          # the runtime refuses it by design, with this reason; plain python runs it
    at_end = "all done"             # a line that it prints at its real end, and never when it is stopped
    at_stop = "cleaned up"          # a line that it prints when it is stopped
    arguments = ["--fast"]          # after the two folders
    to_its_end = "why it is not stopped, killed or drained"
    compare_stdout = true           # whether plain python and the runtime have to print the same
    independent = false             # its inputs are read independently: a drain may end each elsewhere
    [zoo.not]
    kills = "why this way does not apply"
    [zoo.outputs]                   # path below the output folder = what is in it
    counts = "windows(rows, minutes=5, delay=10, closed=closed)"
    "bye.txt" = "['bye']"           # a file: its lines
    [zoo.only]
    "bye.txt" = ["plain", "runtime"]    # in which ways an output is looked at; by default in all
    [zoo.repeats]
    rows = "why a crash may repeat rows in this output"

What is in an output is a Python expression over `rows`, all rows of the input, and `closed`: true for what
plain python gives, false for what a drain gives, all windows and timers out. Its functions are those of
`oracles.py`, in plain Python. A script that ends under the runtime may have either in an output: open windows
are flushed when the queries have ended. Of a drain it is not known beforehand how much it finds read: its
outputs have to be the oracle's for the first files of the input, however many.

A script that does not end by itself is judged when it has written what the oracle says, and is drained at its
end.
"""
