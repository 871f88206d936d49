"""Runs in the Spark driver: executes the unchanged script and ends its queries as the protocol decides.

It imports the standard library and pyspark only, because it is installed in the users' images.

    python -m streamjob.runtime app.py [ARGS...]

The rooms, top to bottom. Imports go down only (import-linter, contract "rooms of the runtime"):

    process      the driver process: pod and local mode, the script, signals, the control server, the exit
    driver       the job in this process: event loop, effects, status
    startup      what happens before a query starts: where it begins, what is refused
    savepoints   everything about savepoints
    query        one run of a query: its task, state, transactions, endpoints, end of input
    spark        Spark's internals: private classes, boundary, max watermark, checkpoint directories

Below them lies what scripts import (`streamjob.job` with `bounds`, `shards` and `state`, the interface
`streamjob.transactional`), then `streamjob.storage`, `streamjob.jvm` and `streamjob.protocol`. The optional
sinks (`streamjob.sinks`) use `spark`, and nothing here imports them.
"""

import sys

if sys.version_info < (3, 10):  # noqa: UP036  the image's Python; an older one cannot even load the other modules
    found = ".".join(map(str, sys.version_info[:2]))
    print(f"streamjob: this is Python {found}, and StreamJob needs Python 3.10 or newer", file=sys.stderr)
    sys.exit(2)
