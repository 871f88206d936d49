"""Files: Hadoop file systems through the JVM, local disks without, server-side and executor copies, hashes.

Called from any thread. `executor_task` runs on executors; it imports only `local_disk` from this project.
"""
