"""The driver process: its entry points (pod, local mode), the script, signals, the control server, the exit.

Only `__main__` calls this room. The main thread belongs to the script from `script.run` until the script
ends. Signals, the control server and the index of a local job each have threads of their own.
"""
