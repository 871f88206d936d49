"""The command line that builds images."""

import argparse
import sys

from dev.cluster.console import say
from dev.cluster.layout import ClusterError
from dev.images import build, sparks, store


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python3 -m dev.images", description="Build the images without a registry."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("build", help="build images")
    command.add_argument(
        "--target",
        choices=sorted(build.TARGETS),
        action="append",
        help=f"only this one, or several (default: {', '.join(build.USUAL)})",
    )
    command.add_argument(
        "--spark",
        choices=sorted((sparks.DEFAULT, *sparks.OTHERS)),
        default=sparks.DEFAULT,
        help="the Spark in it (default: %(default)s); with another one the tag is dev-spark35 and so on",
    )
    command.add_argument("--tag", help="name of the image (default: streamjob.dev/TARGET:dev)")
    command.add_argument(
        "--build-arg", action="append", default=[], metavar="K=V", help="as with docker build"
    )
    commands.add_parser("list", help="what was built, with sizes")
    arguments = parser.parse_args()
    try:
        if arguments.command == "list":
            say(store.buildah("images").rstrip())
            return 0
        targets = arguments.target or list(build.USUAL)
        if arguments.tag and len(targets) != 1:
            raise ClusterError("--tag names one image: say which with --target")
        build.build(targets, arguments.tag, arguments.build_arg, arguments.spark)
    except ClusterError as error:
        print(f"dev.images: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
