"""S3 for tests: a real server over a folder, and what Spark needs to reach it."""
