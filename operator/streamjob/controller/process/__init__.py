"""What belongs to the process as a whole: logs, metrics, memory.

Called by every room that does I/O, never by a pure one. The metrics are read by `web`.
"""
