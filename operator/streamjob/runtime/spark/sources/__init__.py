"""What a query reads: the sources in its plan, their positions in Kafka, and the log of the file source."""
