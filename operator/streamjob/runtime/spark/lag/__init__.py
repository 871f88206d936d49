"""Measures what the sources of a query hold that it has not committed yet: Kafka, folders of files, Delta."""
