"""Delta Lake and Apache Iceberg tables that queries write to: which batches of a query a table has.

Both formats note the id of the query and the number of the batch with each commit of a streaming query. They
skip a batch of the same id whose number is not above the last one. That is why a batch that was in the table
and not in Spark's commit log is not written twice.

`find` says which table a writer writes to; `delta` and `iceberg` read what it has.
"""
