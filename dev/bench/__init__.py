"""Benchmarks of what StreamJob costs: `make bench`. docs/benchmarks.md has the results and explains them."""
