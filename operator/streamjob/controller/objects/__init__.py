"""Builds the Kubernetes objects of a job, and knows their names. Pure.

Called by `rules`, for the configuration of a driver, and by the rooms above that create or select objects.
"""

from __future__ import annotations

from typing import Any

Obj = dict[str, Any]
"""A Kubernetes object, as JSON.

Generated models cost memory and time, and would be converted back at once.
"""
