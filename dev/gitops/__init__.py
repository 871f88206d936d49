"""Argo CD and Flux, for the tests: the code with which they judge and apply an object, without the rest.

`judge` is what they say of an object: Argo CD's Lua interpreter with its limits, and kstatus, the library
with which Flux waits. `fluxapply` applies a manifest with Flux's library for server-side apply. Both are Go
programs in this folder, built once; `go.sum` pins what they are made of.

    python -m dev.gitops > examples/gitops/argocd/argocd-cm.yaml     the scripts as Argo CD takes them
"""
