"""End to end: real Kubernetes, real images, the installed chart.

What a user does is done, what a user sees is read.
"""
