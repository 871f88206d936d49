#!/usr/bin/env bash
# Run the tests that each commit must pass. With `all`, also run the tests marked `slow`, those that depend on Spark's version
# with every Spark, and all of tests/spark with Spark 4.0 too. Called by `make test` and `make test-all`, which install everything first.
# Tests on the real cluster spend most of their time waiting, so they run in parallel with the others, in two processes:
# tests that need the product in the cluster, and tests that need only its API server. Their output goes to two log files,
# which are shown at the end.
set -uo pipefail
cd "$(dirname "$0")/.."
# Each run leaves the time of every test there; the table is shown at the end (dev/timings.py).
timings=.build/timings
rm -rf $timings
mkdir -p $timings
jobs=.build/cluster-tests.log api=.build/api-server-tests.log

# `default_spark`: enough is known of the oldest and the newest Spark without it.
quick=' and not slow' few=' and not default_spark'
# Tests of what the runtime uses from inside Spark. Of every Spark, whether its private members are there and a query ends at
# its boundary. With `all`, also the drain, the sink's log, the check of a query against its state.
by_version='tests/spark/test_batch_tasks.py tests/spark/test_boundary.py tests/spark/test_named_sources.py tests/spark/test_versions.py'
# The oldest and the newest Spark, beside the default one. With `all`, every Spark.
others='spark35 spark43'
if [ "${1:-}" = all ]; then
    quick='' few='' others='spark35 spark42 spark43 spark40'
    by_version="$by_version tests/spark/test_changed_query.py tests/spark/test_classes.py tests/spark/test_drain.py
        tests/spark/test_drain_in_place.py tests/spark/test_executor_numbers.py tests/spark/test_kafka.py
        tests/spark/test_random_stops.py tests/spark/test_runtime.py tests/spark/test_settings.py tests/spark/test_sinklog.py
        tests/spark/test_state_snapshots.py"
    export STREAMJOB_STOPS="${STREAMJOB_STOPS:-24}" # stops for each trigger with each sink
    export STREAMJOB_EXAMPLES="${STREAMJOB_EXAMPLES:-1000}" # examples for each rule of the controller
fi

# A cluster that is already up, and the user's own cluster, are left as they are. A cluster that this script starts is
# removed after both processes have ended.
ours= keep=${KEEP:-}
if [ -z "${CLUSTER:-}$keep" ] && ! python3 -m dev.cluster status >/dev/null 2>&1; then
    ours=yes keep=1
fi
end_cluster() {
    [ -z "$ours" ] || python3 -m dev.cluster down
}

status=0
set -m # without job control, background processes ignore SIGINT and could not end their own children
# A shell handles a signal only after the foreground command has ended, which may take half an hour. A signal interrupts
# `wait`, so every command runs in the background.
run() {
    "$@" &
    in_front=$!
    wait "$in_front" || status=1
}
stop() {
    [ -z "$in_front" ] || kill -INT -- "-$in_front" 2>/dev/null # the whole process group: pytest's workers end the servers that they started
    [ -z "$beside" ] || kill -INT $beside 2>/dev/null
    wait
    end_cluster
    exit 130
}
in_front='' beside=''
trap stop INT TERM

if [ "${1:-}" = all ]; then
    echo "First, while the machine is idle: the tests that fail on a busy machine, with Spark 4.0, then with Spark 4.1"
    for venv in .venv-spark40 .venv; do
        run $venv/bin/python -m pytest -n 2 --junitxml=$timings/impatient${venv#.venv}.xml -m impatient tests/spark
    done
fi

KEEP=$keep .venv/bin/python -m pytest --junitxml=$timings/cluster.xml -m "cluster$quick" tests/e2e tests/dev >"$jobs" 2>&1 &
with_jobs=$!
KEEP=$keep .venv/bin/python -m pytest --junitxml=$timings/api-server.xml -m "cluster$quick" --ignore tests/e2e --ignore tests/dev >"$api" 2>&1 &
with_api=$!
beside="$with_jobs $with_api"

echo "In parallel, tests on the real cluster: $jobs, $api"
echo "Style, types, import contracts, generated files"
run make --no-print-directory lint
echo "Models of the page"
run sh -c 'cd ui && npm run --silent check && npm test --silent'
for spark in $others; do
    echo "Tests that depend on Spark's version, with $spark"
    files=$by_version
    [ "$spark" != spark40 ] || files=tests/spark
    run .venv-$spark/bin/python -m pytest -n 2 --dist worksteal --junitxml=$timings/$spark.xml -m "not any_spark and not impatient$quick$few" $files
done
echo "All tests that need no cluster, with Spark 4.1"
run .venv/bin/python -m pytest -n 2 --dist worksteal --junitxml=$timings/spark41.xml -m "not cluster and not impatient$quick"
echo "Tests on the real cluster that need only its API server"
run tail -n +1 -f --pid="$with_api" "$api"
wait "$with_api" || status=1
echo "Tests on the real cluster with the product in it"
run tail -n +1 -f --pid="$with_jobs" "$jobs"
wait "$with_jobs" || status=1
end_cluster || status=1
echo "Where the time went"
.venv/bin/python -m dev.timings || status=1
exit $status
