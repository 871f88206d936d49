"""Stages with several tasks: which splits of the input each task reads, also after the parallelism changed.

`shards` of the script's side calls this room through `DeclaredStages`, in the script's threads; `admission`
and `driver` ask it when a shard's query starts.
"""
