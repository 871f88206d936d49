"""Properties here are tried on busy machines."""

from tests import patience  # noqa: F401
