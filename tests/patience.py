"""Hypothesis for a busy machine: that is no finding.

The conftest of each folder with properties imports this module.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# Otherwise as Hypothesis has it: with CI set, its examples are the same each time.
settings.register_profile("patient", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
