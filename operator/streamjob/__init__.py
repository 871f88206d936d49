"""StreamJob: graceful termination for PySpark Structured Streaming on Kubernetes."""
