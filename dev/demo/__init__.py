"""The demonstration: a stream on a real Kubernetes is stopped, resumed and drained while its input keeps
arriving.

    python -m dev.demo             boot the cluster, run all steps, remove everything
    python -m dev.demo --down      remove what KEEP=1 left behind

`steps` has the steps; tests/e2e runs the same steps and asserts the result. `site` is the place: cluster,
images, chart.
"""
