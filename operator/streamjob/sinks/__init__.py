"""Optional sinks for foreachBatch that publish their rows when a checkpoint completes (two-phase commit).

    from streamjob.sinks import FileSink

    frame.writeStream.queryName("orders").foreachBatch(FileSink("s3a://shop/orders")).start()

`streamjob.transactional` is the interface for your own sink; `files` and `postgres` implement it.
"""

from ..transactional import Transaction, TransactionalSink, TransactionLost
from .files import FileSink
from .postgres import PostgresSink

__all__ = ["FileSink", "PostgresSink", "Transaction", "TransactionLost", "TransactionalSink"]
