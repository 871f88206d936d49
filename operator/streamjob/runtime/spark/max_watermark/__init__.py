"""The max watermark: the batch that fires all event-time timers, in a restarted query or in the running one,
and the way back.
"""
