"""The commands: each reads what it needs, asks a view, and prints."""
