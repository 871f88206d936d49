"""A real single-node Kubernetes on a bare Linux machine, without a container engine or an image registry.

    python3 -m dev.cluster up             build what is missing, boot, print the path of the kubeconfig
    python3 -m dev.cluster down           end the cluster and leave nothing behind
    python3 -m dev.cluster status         show what runs, and since when
    python3 -m dev.cluster build          only build the binaries (they are cached)
    python3 -m dev.cluster load IMAGE...  load images of `python3 -m dev.images` into the node
    python3 -m dev.cluster kubeconfig     print the path of the kubeconfig
    python3 -m dev.cluster restart NAME   kill a daemon, as a crash does, and start it again
    python3 -m dev.cluster add-node       add a second node, to see what `kubectl drain` does
    python3 -m dev.cluster remove-node    remove the second node

Files. All state of a cluster is in one folder: `.cluster/` below the repository's root, or the folder that
STREAMJOB_CLUSTER_DIR names. Two folders are two clusters, which may run side by side. The binaries outlive a
cluster, in `${XDG_CACHE_HOME:-~/.cache}/streamjob/`. If KUBEBUILDER_ASSETS is set, etcd and kube-apiserver
come from there.

Volumes. The default storage class, `folders`, has four volumes of 5Gi and makes no more. For others, create a
PersistentVolume of type hostPath, or name a hostPath in the pod. Use a folder below `.cluster/volumes/` (in
specs: its absolute path). `down` deletes it.

Isolation. All processes of a cluster live in their own network namespace, mount namespace and cgroup. Rules,
bridges, mounts and sockets exist only there and vanish with the last process. So `down` needs no knowledge of
what happened before: it kills every process in the cgroup, and the kernel does the rest. The host sees one
network interface and routes to pods and services through it, so tests can call a pod's address.
"""
