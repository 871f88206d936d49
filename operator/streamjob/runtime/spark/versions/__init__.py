"""What differs between versions of Spark, and which of them a session runs.

`table` holds every difference that the runtime knows of. No other module compares versions. A version that is
not in the table is refused before the script begins.
"""
