"""Inside the Spark driver: runs the user's unchanged script and ends its queries as the protocol says.

Standard library and pyspark only: this package lives in the users' images.

    python -m streamjob.runtime app.py [ARGS...]

Rooms, from the top; imports go down only (import-linter, contract "rooms of the runtime"):

    process      the driver's process: pod and laptop, the script, signals, the control server, the way out
    driver       the job in this process: event loop, effects, status
    startup      what happens before a query starts: where it begins, what is refused
    savepoints   everything about savepoints
    query        one run of a query: its task, state, transactions, ends
    spark        all that is Spark's own: private classes, boundary, max watermark, checkpoint directories
    storage      files on Hadoop file systems, local disks, S3; copies and hashes
    jvm          the JVM beneath

`streamjob.job`, `.bounds`, `.shards`, `.state` and `.sinks`, which scripts import, lie between `query` and `spark`.
"""
