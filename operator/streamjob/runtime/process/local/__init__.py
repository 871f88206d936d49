"""A job without Kubernetes: its folder, the controller's part, its page, its hand-over to another process."""
