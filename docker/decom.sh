#!/bin/bash
# The preStop hook that Spark gives an executor's container when decommissioning is on (spark.kubernetes.decommission.script). The executor
# finishes its tasks, moves its shuffle files to others and exits. The kubelet waits for that no longer than the pod's grace period.
pid=$(pgrep -o -x java) && kill -s PWR "$pid" && tail --pid="$pid" -f /dev/null
