"""Inside the Spark driver: runs the user's unchanged script and ends its queries as the protocol says.

Standard library and pyspark only: this package lives in the users' images.

    python -m streamjob.runtime app.py [ARGS...]

`__main__` wires it up, `capture` sees the queries start, `driver` carries out what the coordinator decides, `stage` is
one query and its ways to end, `server` is the control endpoint; `internals` alone touches Spark's private classes.
"""
