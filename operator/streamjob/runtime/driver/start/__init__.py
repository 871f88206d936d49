"""The start of a query: admitted by `startup`, connected with the other queries, entered into the event loop.

The script's threads call this room. Several may start queries at the same time.
"""
