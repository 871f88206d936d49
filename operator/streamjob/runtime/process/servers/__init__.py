"""What a driver in a pod serves: the controller's commands and status, and figures for Prometheus."""
