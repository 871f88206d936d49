"""A script that is only checked (ADR 65): what stands in the place of its interface, and of a start."""
