"""The texts that people read in conditions and Events, without secrets. Pure.

Called by `rules` and by `reconciler`.
"""
