"""The command line that builds a release."""

import argparse
import shutil
import sys
from pathlib import Path

from dev.cluster.console import elapsed, say
from dev.cluster.layout import REPOSITORY, ClusterError
from dev.release import archives, chart, images, page, plugin, python_packages, sbom, sign, source

WORK, COMPARED = REPOSITORY / ".build" / "release", REPOSITORY / ".build" / "release-check"
DIST = REPOSITORY / "dist" / "release"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m dev.release", description=__doc__)
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("check", help="build everything twice, each time from nothing, and compare")
    commands.add_parser("lock", help="write requirements/debian.lock from new images")
    arguments = parser.parse_args()
    try:
        if arguments.command == "lock":
            lock()
        elif arguments.command == "check":
            check()
        else:
            release()
    except ClusterError as error:
        print(f"dev.release: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def release() -> None:
    made = _export(WORK)
    out = DIST / made.version
    sums = build(made, out, WORK)
    sign.sign(out, WORK)
    say(f"\n{table(out, sums)}\n")
    say(
        f"{out.relative_to(REPOSITORY)}, {elapsed()}. To check it: cosign verify-blob, then sha256sum --check"
    )
    shutil.rmtree(WORK)


def build(made: source.Source, out: Path, work: Path) -> dict[str, str]:
    """Build everything but the signature.

    :param out: the folder to fill; what is in it is removed.
    :returns: the digests by file name.
    """
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    page.build(made)
    python_packages.build(made, out, work)
    plugin.build(made, out, work)
    chart.build(made, out, work)
    packages = images.build(made, out, work)
    images.check_lock(made, packages)
    sbom.build(made, out)
    return sign.write_sums(out)


def check() -> None:
    """Build twice and compare.

    :raises ClusterError: a file differs. Both results stay, to look at.
    """
    results, commit = [], "HEAD"
    for number in ("first", "second"):
        say(f"The {number} build")
        work = COMPARED / number
        made = _export(work, commit)
        commit = made.revision  # there may be a newer one when the second build begins
        results.append(build(made, work / "result", work))
    differing = [name for name, value in results[0].items() if results[1].get(name) != value]
    if differing or results[0].keys() != results[1].keys():
        raise ClusterError(f"the two builds differ: {' '.join(differing)} (in {COMPARED}/*/result)")
    say(f"\nTwo builds of {made.revision[:12]} are equal in all {len(results[0])} files, {elapsed()}:\n")
    say(table(COMPARED / "first" / "result", results[0]))
    shutil.rmtree(COMPARED)


def lock() -> None:
    made = _export(WORK)
    out = WORK / "result"
    out.mkdir()
    (REPOSITORY / images.LOCK).write_text("".join(f"{line}\n" for line in images.build(made, out, WORK)))
    say(f"wrote {images.LOCK}")
    shutil.rmtree(WORK)


def _export(work: Path, commit: str = "HEAD") -> source.Source:
    shutil.rmtree(work, ignore_errors=True)
    return source.export(work / "source", commit)


def table(folder: Path, sums: dict[str, str]) -> str:
    """Each file with its size and digest; of an archive of an OCI layout also the digest in a registry."""
    rows = [("file", "size", "sha256")]
    for name, value in sums.items():
        rows.append((name, _size((folder / name).stat().st_size), value))
        if name.endswith(".oci.tar"):
            rows.append(
                ("", "in a registry", archives.manifest_digest(folder / name).removeprefix("sha256:"))
            )
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    return "\n".join(f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c}" for a, b, c in rows)


def _size(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 100_000 else f"{size / 1e3:.1f} kB"


if __name__ == "__main__":
    sys.exit(main())
