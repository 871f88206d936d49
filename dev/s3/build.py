"""The S3 server (versitygw: S3 over a folder), built from its published source."""

from pathlib import Path

from dev.cluster.build import go_program

VERSION = "1.8.0"


def gateway() -> Path:
    """The path of the server's program, which is built if the cache does not have it."""
    return go_program("versitygw", VERSION, "github.com/versity/versitygw/cmd/versitygw")
