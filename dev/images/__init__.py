"""Build the product's images on a machine without a container engine and without an image registry.

    python3 -m dev.images build                     controller, driver and Kafka
    python3 -m dev.images build --target driver     one of them, or driver-s3
    python3 -m dev.images list                      what was built

buildah builds the same Dockerfile that any other tool would. What is special is around it: the base image that FROM
names is put together from Debian packages, and the machine's settings for apt, pip and Maven (mirrors, certificates)
are lent to the build through mounts, so that nothing of them is left in an image. Storage is below
`${XDG_CACHE_HOME:-~/.cache}/streamjob/buildah/`; a machine's own container storage is not touched.

Images are named `streamjob.dev/controller:dev`, `streamjob.dev/driver:dev` and so on.
"""
