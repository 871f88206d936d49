"""Builds the Kubernetes objects of a job, and knows their names. Pure.

Called by `rules`, for the configuration of a driver, and by the rooms above that create or select objects.
"""
