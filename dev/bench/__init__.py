"""What StreamJob costs, measured: `make bench` (docs/benchmarks.md holds a run and says how to read it)."""
