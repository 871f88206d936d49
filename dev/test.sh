#!/usr/bin/env bash
# All tests. Those on the real cluster wait for most of their time, so they run beside the others; what they say is shown at the
# end, and until then in the file that is named. Called by `make test`, which has installed everything.
set -uo pipefail
cd "$(dirname "$0")/.."
on_cluster=.build/cluster-tests.log
mkdir -p .build

set -m # or it would be started with SIGINT ignored, and could not end its cluster
.venv/bin/python -m pytest --durations=15 -m cluster >"$on_cluster" 2>&1 &
cluster=$!
set +m
trap 'kill -INT "$cluster"; wait "$cluster"; exit 130' INT TERM

status=0
echo "Beside what follows, on the real cluster: $on_cluster"
echo "What depends on Spark's version, with Spark 4.0"
.venv-spark40/bin/python -m pytest -n 2 --durations=15 -m "not any_spark" tests/spark || status=1
echo "All that needs no cluster, with Spark 4.1"
.venv/bin/python -m pytest -n 2 --durations=15 -m "not cluster" || status=1
echo "On the real cluster"
tail -n +1 -f --pid="$cluster" "$on_cluster"
wait "$cluster" || status=1
exit $status
