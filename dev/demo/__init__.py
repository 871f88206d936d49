"""The demonstration: a stream on a real Kubernetes that is stopped, resumed and drained while its input goes on.

    python -m dev.demo             make the cluster, tell the whole story, take everything away again
    python -m dev.demo --down      take away what KEEP=1 left

`steps` is the story; tests/e2e tells the same one and asserts what it ends with. `site` is where it takes place.
"""
