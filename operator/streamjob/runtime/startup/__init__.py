"""What happens before a query starts: which task it is, where it begins, and what is refused before anything is written.

Called by `driver`, in the script's thread that starts the query.
"""
