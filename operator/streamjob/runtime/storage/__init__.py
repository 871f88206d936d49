"""Files: any Hadoop file system through the JVM, a local disk without it, copies by an S3 server and by executors, hashes.

Called from any thread. `executor_task` runs on executors and imports `local_disk` and nothing else.
"""
