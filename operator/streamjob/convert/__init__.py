"""Writes StreamJobs for SparkApplications: `streamjob convert`.

It reads the resources of Kubeflow's Spark operator and of Apache's, and needs no cluster and no Spark. Every
field of the input is in exactly one line of the account (`source`): it is kept, it is translated with another
meaning, it has no counterpart, or it needs none. A field that no rule knows is reported as such.

`applications` knows the resources and Spark's settings, `draft` and `pods` build the StreamJob. They may use
`api`, and neither the controller nor the runtime.
"""
