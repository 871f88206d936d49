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
    storage      files on Hadoop file systems, local disks and S3: copies and hashes
    jvm          the JVM: its errors, a JVM without a session, the class archive

`streamjob.job`, `.bounds`, `.shards`, `.state` and `.sinks`, which scripts import, lie between `query` and
`spark`.
"""
