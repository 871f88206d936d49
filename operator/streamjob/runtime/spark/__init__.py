"""All that is Spark's own: private classes by version, the boundary, the max watermark, checkpoint directories, the logs of file
sources and sinks, plans.

Other rooms do not touch private attributes of pyspark or classes of the JVM (`tests/runtime/test_rooms.py`). Called from any
thread; py4j gives each its own connection.
"""
