"""Checkpoints: which are taken and when (`trigger`), those triggered and not completed (`pending`), what a
single one is (`checkpoint`), and how its barriers pass the tasks (`barriers`).
"""
