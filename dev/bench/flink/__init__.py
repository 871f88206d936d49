"""Flink itself beside our figures: the same job on a standalone cluster of this machine, in turn with ours.

`library` brings Flink's jars, `cluster` runs its processes, `job` submits the job, `life` measures it,
`answers` reads what Flink's REST API says, `comparison` pairs its figures (`names`) with ours.
"""
