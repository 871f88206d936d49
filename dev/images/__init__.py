"""Build the product's images on a machine without a container engine and without an image registry.

    python3 -m dev.images build                     controller, driver and Kafka
    python3 -m dev.images build --target driver     only one of them, or driver-s3
    python3 -m dev.images build --target driver --spark 3.5    with another Spark
    python3 -m dev.images build --target stock      Spark's own layout, without StreamJob (dev/stock)
    python3 -m dev.images list                      what was built

buildah builds the same Dockerfile that any other tool would build. Two things are different. The base image
in FROM is assembled from Debian packages. Mounts lend the machine's settings for apt, pip and Maven (mirrors,
certificates) to the build, so that no image contains them. The storage is
`${XDG_CACHE_HOME:-~/.cache}/streamjob/buildah/`; the machine's own container storage is not touched.

Images are named `streamjob.dev/controller:dev`, `streamjob.dev/driver:dev` and so on, with another Spark
`streamjob.dev/driver:dev-spark35`.
"""
