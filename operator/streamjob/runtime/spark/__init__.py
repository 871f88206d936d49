"""Everything specific to Spark.

Private classes by version, the boundary, the max watermark, checkpoint directories, the logs of file sources
and sinks, plans.

Only `spark`, `storage` and `jvm` use pyspark's private attributes for the JVM
(`tests/runtime/test_rooms.py`). Called from any thread; py4j gives each thread its own connection.
"""
