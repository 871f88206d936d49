"""Tools for developing StreamJob. Nothing in this package is shipped."""
