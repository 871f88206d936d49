"""What the driver fetches before the script begins: the script itself, jars, packages, modules, files."""
