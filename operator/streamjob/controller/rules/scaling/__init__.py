"""The number of executors: what the load asks for, and how the running driver gets it. Pure."""
