"""What a job needs beside its image: jars, Maven packages, Python modules and files."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from .types import Model, cel

Rules = tuple[tuple[str, str], ...]

# Spark separates the entries of a list with commas, and reads *, ?, [ and { as a pattern of many files.
_END = r"[^\x00-\x20\x7f\\,*?{}\[\]#/]"
FILE = rf"([a-z][a-z0-9+.-]*:/|/)([^\x00-\x20\x7f\\,*?{{}}\[\]#]*{_END})"
# The form without one, with an authority (a host, perhaps with user and port), an empty one, or none.
NO_PASSWORD = r"([^:/]*:)?(//[^/:@]+(@[^/:@]+)?(:[0-9]*)?(/.*)?|//(/[^/].*)?|/([^/].*)?)"  # noqa: S105
FILE_RULES = (
    (
        FILE,
        "must name one file, as a URI (s3a://bucket/file, https://host/file, local:///file in the image) or "
        "an absolute path, without ',', '#', '?', '*', braces and brackets",
    ),
    (NO_PASSWORD, "must not hold a user's password: whoever may read the StreamJob may read it"),
)
PYTHON_RULES = (
    *FILE_RULES,
    (
        r".*([.]py|[.]zip|[.]egg|-none-any[.]whl)",
        "must end with .py, .zip, .egg or -none-any.whl (a wheel of pure Python)",
    ),
)
PACKAGE_RULES = (
    (
        r"[A-Za-z0-9_.-]+:[A-Za-z0-9_.-]+:[A-Za-z0-9_.+-]+",
        "must be Maven coordinates group:artifact:version, such as org.postgresql:postgresql:42.7.8",
    ),
)
EXCLUSION_RULES = (
    (r"[A-Za-z0-9_.*-]+:[A-Za-z0-9_.*-]+", "must be group:artifact of a Maven package, without a version"),
)
REPOSITORY_RULES = (
    (
        r"(https?://|file:/)[^\x00-\x20\x7f\\,*?#]*",
        "must be the URL of a Maven repository, such as https://repository.example/maven2",
    ),
    FILE_RULES[1],
)


def checked(rules: Rules) -> AfterValidator:
    """Checks that a string matches each pattern as a whole."""

    def check(value: str) -> str:
        for pattern, message in rules:
            if not re.fullmatch(pattern, value):
                raise ValueError(message)
        return value

    return AfterValidator(check)


def rules_of(rules: Rules) -> dict[str, Any]:
    """`json_schema_extra` with which the API server checks the same."""
    return cel(*((f"self.matches(r'^{pattern}$')", message) for pattern, message in rules))


def _text(rules: Rules, longest: int) -> Any:
    return Field(max_length=longest, json_schema_extra=rules_of(rules))


File = Annotated[str, checked(FILE_RULES), _text(FILE_RULES, 1024)]
PyFile = Annotated[str, checked(PYTHON_RULES), _text(PYTHON_RULES, 1024)]
Package = Annotated[str, checked(PACKAGE_RULES), _text(PACKAGE_RULES, 256)]
Exclusion = Annotated[str, checked(EXCLUSION_RULES), _text(EXCLUSION_RULES, 256)]
Repository = Annotated[str, checked(REPOSITORY_RULES), _text(REPOSITORY_RULES, 1024)]


class Deps(Model):
    """What the job needs beside its image.

    The driver fetches all of it before the script begins, and serves it to the executors. With `deps` the JVM
    starts before the script, as with spark-submit: settings of the JVM that the script makes come too late.
    """

    jars: tuple[File, ...] = Field(
        default=(),
        max_length=128,
        description="Jars for the class path of driver and executors (spark.jars).",
    )
    packages: tuple[Package, ...] = Field(
        default=(),
        max_length=64,
        description="Maven packages, group:artifact:version, for the same class path; with what they depend "
        "on (spark.jars.packages).",
    )
    exclude_packages: tuple[Exclusion, ...] = Field(
        default=(),
        max_length=64,
        description="Packages, group:artifact, to leave out of what `packages` depend on "
        "(spark.jars.excludes).",
    )
    repositories: tuple[Repository, ...] = Field(
        default=(),
        max_length=16,
        description="Maven repositories to search before Maven Central (spark.jars.repositories).",
    )
    py_files: tuple[PyFile, ...] = Field(
        default=(),
        max_length=128,
        description="Python modules (.py, .zip, .egg, wheels of pure Python) that the script and its "
        "functions on executors can import (spark.submit.pyFiles).",
    )
    files: tuple[File, ...] = Field(
        default=(),
        max_length=128,
        description="Files that SparkFiles.get() finds by their names, in the driver once it has a session, "
        "and on executors (spark.files).",
    )
