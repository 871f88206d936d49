"""The functions that a script gives to foreachBatch: which threads run their batches, and what they write."""
