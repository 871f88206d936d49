"""Inside the Spark driver: runs the user's unchanged script and ends its queries as the protocol says.

Standard library and pyspark only: this package lives in the users' images.

    python -m streamjob.runtime app.py [ARGS...]

`__main__` wires it up, `capture` sees the queries start, `driver` is what script and controller ask of the job, `loop` gives
the coordinator its events and `work` carries out what it wants, `stage` is one query and its ways to end, `edges` finds who reads
what whom writes, `server` is the control endpoint, `local` stands in for the controller on a laptop; `internals` alone touches
Spark's private classes.
"""
