#!/usr/bin/env bash
# The tests that each commit has to pass; with `all` those marked `slow` too, and all of tests/spark with both versions of Spark.
# Those on the real cluster wait for most of their time, so they run beside the others, in two processes: those that need the product
# in it, and those that need its API server only. What they say is shown at the end, and until then in the files that are named.
# Called by `make test` and `make test-all`, which have installed everything.
set -uo pipefail
cd "$(dirname "$0")/.."
mkdir -p .build
jobs=.build/cluster-tests.log api=.build/api-server-tests.log

quick=' and not slow'
# What the runtime takes from inside Spark: the boundary, the drain, the sink's log, how a query is compared with its state.
with_spark40='tests/spark/test_boundary.py tests/spark/test_changed_query.py tests/spark/test_classes.py tests/spark/test_drain.py
    tests/spark/test_random_stops.py tests/spark/test_runtime.py tests/spark/test_settings.py tests/spark/test_sinklog.py'
if [ "${1:-}" = all ]; then
    quick='' with_spark40=tests/spark
    export STREAMJOB_STOPS="${STREAMJOB_STOPS:-24}" # of each trigger with each sink
    export STREAMJOB_EXAMPLES="${STREAMJOB_EXAMPLES:-1000}" # of each rule of the controller
fi

# A cluster that is up, or the user's own, is left as it was found. Ours goes when both processes have ended.
ours= keep=${KEEP:-}
if [ -z "${CLUSTER:-}$keep" ] && ! python3 -m dev.cluster status >/dev/null 2>&1; then
    ours=yes keep=1
fi
end_cluster() {
    [ -z "$ours" ] || python3 -m dev.cluster down
}

status=0
set -m # or what is begun beside this shell would ignore SIGINT, and could not end what it has begun
# A shell hears of a signal when what it waits for in the foreground has ended, which may be in half an hour; `wait` is broken off.
run() {
    "$@" &
    in_front=$!
    wait "$in_front" || status=1
}
stop() {
    [ -z "$in_front" ] || kill -INT -- "-$in_front" 2>/dev/null # its workers too: they end the servers that they have begun
    [ -z "$beside" ] || kill -INT $beside 2>/dev/null
    wait
    end_cluster
    exit 130
}
in_front='' beside=''
trap stop INT TERM

if [ "${1:-}" = all ]; then
    echo "What a busy machine would make fail, before there is one: with Spark 4.0, then with Spark 4.1"
    for venv in .venv-spark40 .venv; do
        run $venv/bin/python -m pytest -n 2 -m impatient tests/spark
    done
fi

KEEP=$keep .venv/bin/python -m pytest --durations=15 -m "cluster$quick" tests/e2e tests/dev >"$jobs" 2>&1 &
with_jobs=$!
KEEP=$keep .venv/bin/python -m pytest --durations=15 -m "cluster$quick" --ignore tests/e2e --ignore tests/dev >"$api" 2>&1 &
with_api=$!
beside="$with_jobs $with_api"

echo "Beside what follows, on the real cluster: $jobs, $api"
echo "Style, types, who may import whom, generated files"
run make --no-print-directory lint
echo "What depends on Spark's version, with Spark 4.0"
run .venv-spark40/bin/python -m pytest -n 2 --dist worksteal --durations=15 -m "not any_spark and not impatient$quick" $with_spark40
echo "All that needs no cluster, with Spark 4.1"
run .venv/bin/python -m pytest -n 2 --dist worksteal --durations=15 -m "not cluster and not impatient$quick"
echo "On the real cluster, its API server"
run tail -n +1 -f --pid="$with_api" "$api"
wait "$with_api" || status=1
echo "On the real cluster, with the product in it"
run tail -n +1 -f --pid="$with_jobs" "$jobs"
wait "$with_jobs" || status=1
end_cluster || status=1
exit $status
