"""Reconciles jobs: a work queue says which job is due; its reconcile observes, decides, and acts.

Called by `triggers`, which enqueues jobs, by `web`, which asks for liveness, and by `__main__`. Runs in the
controller's event loop: one asyncio task per job that is due, one for the periodic resync.
"""
