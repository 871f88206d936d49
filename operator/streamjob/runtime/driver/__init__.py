"""The job in this process: what the script and the controller ask of it, the event loop around the coordinator, the effects.

Called by `process`. The script's threads call `Driver` and wait there; one thread runs the event loop; effects run in a thread
for each task and one for the job.
"""
