"""S3 for tests: a real server that keeps its objects in a folder, and what Spark needs to reach it."""
