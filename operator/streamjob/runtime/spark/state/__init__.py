"""The states that this process holds itself, because its tasks run in the driver's JVM."""
