"""What the driver asks of its image, and what it brings along. Called once, before the script begins."""
