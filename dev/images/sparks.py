"""The lines of Spark that an image can have, and which version of each."""

import re

from dev.cluster.layout import REPOSITORY, ClusterError

DEFAULT = "4.1"  # what the Dockerfile has without a build argument
OTHERS = ("3.5", "4.0", "4.2", "4.3")


def version(line: str) -> str:
    """The version of a line: what the Dockerfile or requirements/ pin.

    :raises ClusterError: there is no such line.
    """
    if line == DEFAULT:
        file, pinned = REPOSITORY / "Dockerfile", r"^ARG PYSPARK_VERSION=(.+)$"
    elif line in OTHERS:
        file, pinned = REPOSITORY / "requirements" / f"{name(line)}.in", r"^pyspark==(.+)$"
    else:
        raise ClusterError(f"there is no Spark {line} here, only {', '.join(sorted((DEFAULT, *OTHERS)))}")
    found = re.search(pinned, file.read_text(), re.MULTILINE)
    assert found, file
    return found[1]


def tag(line: str) -> str:
    """The tag of an image with this Spark: `dev`, or `dev-spark35`."""
    return "dev" if line == DEFAULT else f"dev-{name(line)}"


def name(line: str) -> str:
    return f"spark{line.replace('.', '')}"
