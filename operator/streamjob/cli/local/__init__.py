"""Jobs that run without Kubernetes (`--local DIR`): what their folder says, and how they are ended."""
