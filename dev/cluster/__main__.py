"""The command line of the built-in cluster."""

import argparse
import sys

from dev.cluster import lifecycle, load
from dev.cluster.console import say
from dev.cluster.layout import ClusterError, Layout


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python3 -m dev.cluster", description="A real Kubernetes on this machine."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("up", help="boot the cluster; what is missing is built first")
    commands.add_parser("down", help="end the cluster and leave nothing behind")
    commands.add_parser("status", help="show what runs")
    commands.add_parser("build", help="build the binaries, install the packages, start nothing")
    loading = commands.add_parser("load", help="bring built images into the node")
    loading.add_argument(
        "image", nargs="+", help="a name that `python3 -m dev.images build` gave, or an archive file"
    )
    commands.add_parser("kubeconfig", help="print the path of the kubeconfig")
    restarting = commands.add_parser("restart", help="kill one of the daemons and start it again")
    restarting.add_argument("daemon", help="a name that `status` shows, such as kube-apiserver")
    commands.add_parser("add-node", help="give the cluster a second node, with the images of the first")
    commands.add_parser("remove-node", help="take it away again; drain it first")
    arguments = parser.parse_args()
    layout = Layout.from_environment()
    try:
        match arguments.command:
            case "up":
                lifecycle.up(layout)
            case "down":
                lifecycle.down(layout)
            case "status":
                return lifecycle.status(layout)
            case "build":
                with lifecycle.locked(layout):
                    lifecycle.prepare(layout)
            case "load":
                with lifecycle.locked(layout):
                    load.load(layout, arguments.image)
            case "restart":
                with lifecycle.without(layout, arguments.daemon):
                    pass
            case "add-node":
                lifecycle.add_node(layout)
            case "remove-node":
                lifecycle.remove_node(layout)
            case "kubeconfig":
                say(str(layout.kubeconfig))
    except ClusterError as error:
        print(f"dev.cluster: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ndev.cluster: interrupted; `python3 -m dev.cluster down` cleans up", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
