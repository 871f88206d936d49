"""The job's pods: the executors, and what a user's template may hold."""
