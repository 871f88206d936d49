"""The job as the script sees it: the query objects that it holds, what it stops, and what it waits for.

The script's threads call this room and wait here. `Driver` and the event loop wake them.
"""
