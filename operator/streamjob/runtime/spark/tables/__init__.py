"""Tables in Delta Lake and Apache Iceberg that queries write to: which batches does one have?

With each commit of a streaming query, each format notes who wrote it and the number of the batch. It skips a
batch of the same writer whose number is not above the last one. That is why a batch that was in the table and
not in Spark's commit log is not written twice. The writer is Spark's query id.

`find` says which table a writer writes to; `delta` and `iceberg` read what it has.
"""
