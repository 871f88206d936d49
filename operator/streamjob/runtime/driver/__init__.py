"""The job in this process: what the script and the controller request, the event loop, the effects.

`process` calls this room. The script's threads call `ScriptApi` and wait there. `dispatcher` and `requests`
decide; they have no thread and no clock. The event loop calls them under one lock, with events from any
thread. Effects run in one thread per task; those of the job, and cancels, run in a new thread for each event
that asks for some.
"""
