"""The job's pods: the executors, what a user's template may hold, and what the status says of them."""
