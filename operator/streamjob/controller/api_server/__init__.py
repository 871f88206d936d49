"""The Kubernetes API: every call to it, and what is made of several calls (leader election, last finalizers).

Called by `drivers`, which reads Secrets, by `reconciler`, and by `__main__`. Runs in the controller's event
loop. Only `kube` imports the client library.
"""
