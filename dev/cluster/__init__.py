"""A real single-node Kubernetes on a bare Linux machine, without a container engine or an image registry.

    python3 -m dev.cluster up             build what is missing, boot, print where the kubeconfig is
    python3 -m dev.cluster down           end it and leave nothing behind
    python3 -m dev.cluster status         what runs, and since when
    python3 -m dev.cluster build          only build the binaries (they are cached)
    python3 -m dev.cluster load IMAGE...  bring images of `python3 -m dev.images` into the node
    python3 -m dev.cluster kubeconfig     print the path of the kubeconfig
    python3 -m dev.cluster restart NAME   kill a daemon, as a crash does, and start it again
    python3 -m dev.cluster add-node       a second node (remove-node takes it away), to see what `kubectl drain` does

Where things are. All state of a cluster is in one folder: `.cluster/` below the repository's root, or what
STREAMJOB_CLUSTER_DIR names. Two folders are two clusters; they may run side by side. Binaries outlive a cluster in
`${XDG_CACHE_HOME:-~/.cache}/streamjob/`. If KUBEBUILDER_ASSETS is set, etcd and kube-apiserver come from there.

Volumes. There is no storage class. A claim is bound by a hand-made PersistentVolume of type hostPath, or a pod names a
hostPath itself; use a folder below `.cluster/volumes/` (inside pods' specs: its absolute path). `down` deletes it.

How it is kept apart from the machine. All its processes live in a network namespace and a mount namespace of their
own and in a cgroup of their own. Rules, bridges, mounts and sockets exist only in there and end with the last process.
So `down` needs no knowledge of what happened before: it kills what is in the cgroup, and the kernel does the rest. The
host sees one network interface, and routes through it to the pods and services, so tests can call a pod's address.
"""
