"""Savepoints on storage: write, restore, share, list, describe, verify, export, delete, adopt.

Called by `startup` and by the threads that carry out effects; `cli` needs no job. Several threads copy files
in parallel.
"""
