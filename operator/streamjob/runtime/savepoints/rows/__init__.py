"""Rows of the state in a savepoint or a checkpoint directory, read with Spark's own state data source.

Needs a Spark session, which the other savepoint commands do not.
"""
