"""Reads a job and what belongs to it, from the cluster or from a folder. A command imports what it reads."""
