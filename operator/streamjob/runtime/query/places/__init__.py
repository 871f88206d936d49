"""What a query has to itself: among the queries of its script, and among jobs."""
