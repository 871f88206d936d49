"""Connections to driver pods: the long poll for the status, and the commands.

Called by `reconciler`. Runs in the controller's event loop: one asyncio task per connected driver. Only this
room talks to drivers.
"""
