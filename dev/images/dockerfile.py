"""Read from a Dockerfile what must be known before the build."""

import re


def base_images(text: str) -> list[str]:
    """Return the images in FROM that are not stages of the Dockerfile itself, in order and without
    duplicates.
    """
    stages: set[str] = {"scratch"}
    found: list[str] = []
    for line in text.splitlines():
        words = line.split()
        if not words or words[0].upper() != "FROM":
            continue
        arguments = [word for word in words[1:] if not word.startswith("--")]
        if arguments[0] not in stages and arguments[0] not in found:
            found.append(arguments[0])
        if len(arguments) == 3 and arguments[1].upper() == "AS":
            stages.add(arguments[2])
    return found


def debian_suite(image: str) -> str | None:
    """Return the Debian release in an image name: `docker.io/library/debian:bookworm-slim` -> bookworm."""
    found = re.fullmatch(r"(?:docker\.io/)?(?:library/)?debian:([a-z]+)(?:-slim)?", image)
    return found[1] if found else None
