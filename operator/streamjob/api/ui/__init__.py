"""How Spark's UI is reached: `spec.ui`."""
