"""Parts of the status."""
