"""The job in this process: what the script and the controller request, the event loop, the effects.

`process` calls this room. The script's threads call `ScriptSide` and wait there. The event loop has no thread of
its own: events come from any thread and are handled under one lock. Effects run in one thread per task; those
of the job, and cancels, run in a new thread for each event that asks for some.
"""
