"""Build what is published: Python packages, images, chart, lists of contents, checksums, signature.

    python -m dev.release                      build everything into dist/release/VERSION/
    python -m dev.release check                build it twice, each time from nothing, and compare
    python -m dev.release lock                 write requirements/debian.lock from the images just built

A release is made of the last commit, not of the working tree, and every file in it has the commit's time.
The inputs are locked: Python packages by hash, jars by version, Debian's packages by the versions in
requirements/debian.lock. So the same commit gives the same bytes; only the signature differs (ADR 33).

The environment says where it is going to be published:

    REGISTRY      the prefix of the images' and the chart's names, such as registry.example/streamjob
    SOURCE_URL    the address of the repository, for the chart and the images' labels
    COSIGN_KEY    the private key to sign with, with COSIGN_PASSWORD; without it, a new key that is used once
"""
