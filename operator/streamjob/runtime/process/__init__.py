"""The driver's process: its entry points (a pod, a laptop), the user's script in the main thread, signals, the control server,
and the way out.

Called by `__main__` only. The main thread belongs to the script from `script.run` until the script ends; signals, the control
server and the index of a laptop job have threads of their own.
"""
