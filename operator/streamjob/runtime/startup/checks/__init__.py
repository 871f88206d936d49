"""Checks of a query before it starts. They refuse by raising, and write nothing.

`admission` and `driver` call them, in the script's threads.
"""
