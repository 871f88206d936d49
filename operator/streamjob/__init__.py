"""StreamJob: graceful termination for PySpark Structured Streaming on Kubernetes.

What runs on Spark, top to bottom; imports go down only:

    sinks        optional transactional sinks, for scripts
    runtime      the driver process: runs the unchanged script, and ends its queries as the protocol decides
    job          what scripts import, with `bounds`, `shards`, `state` and `transactional`
    storage      files on Hadoop file systems, local disks and S3: copies and hashes
    jvm          the JVM: its errors and signals, a JVM without a session, the class archive
    protocol     what StreamJob promises, as pure code

What runs in the operator's pod:

    controller   observes a StreamJob, decides, acts
    api          the custom resource as pydantic models
    protocol     the same

What runs on the user's machine:

    cli          the command `kubectl streamjob`, through the user's own kubectl
    convert      from SparkApplications to StreamJobs
    api          for `convert`
"""

__version__ = "0.1.0"
