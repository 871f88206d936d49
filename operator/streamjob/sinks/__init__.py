"""Sinks for foreachBatch whose rows become visible when a checkpoint completes: two-phase commit. Optional.

    from streamjob.sinks import FileSink

    frame.writeStream.queryName("orders").foreachBatch(FileSink("s3a://shop/orders")).start()

`transactional` is the interface, for a sink of one's own; `files` and `postgres` are two.
"""

from .files import FileSink
from .postgres import PostgresSink
from .transactional import Transaction, TransactionalSink, TransactionLost

__all__ = ["FileSink", "PostgresSink", "Transaction", "TransactionLost", "TransactionalSink"]
