"""What happens before a query starts: which task it is, where it begins, and what is refused.

Refusals come before anything is written.

`driver` calls this room, in the script's thread that starts the query. Exceptions: `process` calls
`index_recovery` before there is a Spark session, checkpoints call `carried_stages` in the thread of their
effects, and `check_declarations` and `missing_stages` also run when the script waits.
"""
