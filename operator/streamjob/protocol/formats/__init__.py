"""What is stored: in the index, in a savepoint's manifest, in a checkpoint directory.

Plain data and its JSON.
"""
