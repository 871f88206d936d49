#!/bin/bash
# What Kubernetes runs before it ends an executor whose job asked for decommissioning: tell the executor, and wait for
# its end, at most a minute.
set -e
executor=$(ps -C java -o pid,args | awk '/Executor/ {pid = $1} END {print pid}')
echo "decommissioning the executor, process $executor"
kill -s PWR "$executor"
timeout 60 tail --pid="$executor" -f /dev/null
