"""The prose of the repository, checked by Vale with the words of `StreamJob/`."""
