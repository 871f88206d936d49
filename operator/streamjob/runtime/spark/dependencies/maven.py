"""Finds Maven packages by Spark's own resolver, which is Ivy.

Spark's settings of it would ask the default repositories first, wait for each that does not answer, for
minutes per file, and then say only that a package was not found. So the settings are made here: the job's
repositories come first, those that do not answer are left out, and no request waits for long. A file of the
user's (`spark.jars.ivySettings`) is taken as it is.
"""

from __future__ import annotations

import html
import logging
import os
import re
from pathlib import Path

from py4j.protocol import Py4JJavaError

from ....jvm.errors import one_line
from ....jvm.standalone import Jvm
from ....protocol.errors import StreamJobError
from ....protocol.messages.driver_config import Deps
from ....storage.fetch import CONNECT, READ, is_http, local_path, unreachable
from .errors import DependencyInvalid, DependencyUnavailable

log = logging.getLogger("streamjob")

FIELD = "spec.deps.packages"
CENTRAL = "https://repo1.maven.org/maven2/"  # as in Spark, whose variable for another one is honored, too
CENTRAL_VARIABLE = "DEFAULT_ARTIFACT_REPOSITORY"
SPARK_PACKAGES = "https://repos.spark-packages.org/"
UNRESOLVED = re.compile(r"unresolved dependency: ([^#\s]+)#([^;\s]+);([^:\s]+): not found")


def resolve(jvm: Jvm, deps: Deps, folder: Path) -> list[Path]:
    """Download the packages and what they depend on.

    :param folder: for Ivy's files, unless `spark.jars.ivy` names another one.
    :raises DependencyInvalid: no repository has a package.
    :raises DependencyUnavailable: a repository that may have it cannot be reached.
    """
    system = jvm.jvm.java.lang.System
    theirs = system.getProperty("spark.jars.ivySettings")
    usable, silent = ([], {}) if theirs else _divide(jvm, _repositories(deps))
    if not theirs and not usable:
        raise _unavailable(deps, silent)
    settings = folder / "ivysettings.xml"
    settings.write_text(_settings(usable))
    try:
        found = jvm.jvm.org.apache.spark.util.DependencyUtils.resolveMavenDependencies(
            True,
            ",".join(deps.exclude_packages),
            ",".join(deps.packages),
            ",".join(deps.repositories) if theirs and deps.repositories else None,
            system.getProperty("spark.jars.ivy") or str(folder / "ivy"),
            jvm.jvm.scala.Option.apply(theirs or str(settings)),
        )
    except Py4JJavaError as e:
        raise _failed(jvm, deps, usable, silent, one_line(e)) from None
    paths = [Path(local_path(uri)) for uri in str(found.mkString(",")).split(",") if uri]
    log.info("packages %s: %s", ", ".join(deps.packages), ", ".join(path.name for path in paths))
    return paths


def _repositories(deps: Deps) -> list[str]:
    return [*deps.repositories, os.environ.get(CENTRAL_VARIABLE, CENTRAL), SPARK_PACKAGES]


def _divide(jvm: Jvm, repositories: list[str]) -> tuple[list[str], dict[str, str]]:
    """The repositories that answer, and why the others do not."""
    silent = {url: why for url in repositories if (why := _silent(jvm, url)) is not None}
    for url, why in silent.items():
        log.warning("the Maven repository %s is left out: %s", url, why)
    return [url for url in repositories if url not in silent], silent


def _silent(jvm: Jvm, url: str) -> str | None:
    if is_http(url):
        return unreachable(jvm, url)
    return None if Path(local_path(url)).is_dir() else "there is no such folder"


def _settings(repositories: list[str]) -> str:
    resolvers = "".join(
        f'<ibiblio name="repository-{n}" m2compatible="true" timeoutConstraint="bounded" '
        f'root="{html.escape(url)}"/>'
        for n, url in enumerate(repositories)
    )
    return (
        f'<ivysettings><settings defaultResolver="repositories"/><timeout-constraints><timeout-constraint '
        f'name="bounded" connectionTimeout="{CONNECT}" readTimeout="{READ}"/></timeout-constraints>'
        f'<resolvers><chain name="repositories">{resolvers}</chain></resolvers></ivysettings>'
    )


def _failed(jvm: Jvm, deps: Deps, usable: list[str], silent: dict[str, str], why: str) -> StreamJobError:
    """The error for what Ivy says, which is `not found` whatever the repository has answered."""
    missing = UNRESOLVED.findall(why)
    for group, artifact, version in missing:
        file = f"{group.replace('.', '/')}/{artifact}/{version}/{artifact}-{version}.pom"
        poms = {url: f"{url.rstrip('/')}/{file}" for url in usable if is_http(url)}
        silent |= {url: said for url, pom in poms.items() if (said := unreachable(jvm, pom)) is not None}
    if silent or not missing or not usable:  # with settings of the user's, nobody knows
        return _unavailable(deps, silent, why)
    names = ", ".join(":".join(package) for package in missing)
    return DependencyInvalid(
        f"{FIELD}: {names} not found in {', '.join(usable)}",
        remedy="Correct the coordinates, or name spec.deps.repositories",
    )


def _unavailable(deps: Deps, silent: dict[str, str], why: str = "") -> DependencyUnavailable:
    causes = [why] if why else []
    causes += [f"{url} cannot be reached ({cause})" for url, cause in silent.items()]
    return DependencyUnavailable(
        f"{FIELD}: cannot get {', '.join(deps.packages)}: {'; '.join(causes)}",
        remedy="See whether the driver can reach the repository; name another one in spec.deps.repositories",
    )
