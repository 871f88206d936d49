#!/bin/sh
# Make the Python environments that the Makefile uses, from the lock files. A second run finds them and does nothing.
#
#     dev/bootstrap.sh packages    Python and Java, where the machine has none; each of the others looks for them too
#     dev/bootstrap.sh             .venv          everything: tools, tests, Spark 4.1
#     dev/bootstrap.sh spark35     .venv-spark35  the same with Spark 3.5, for the Spark tests; also spark40, spark42, spark43
#     dev/bootstrap.sh node        Node and npm, which build the page
#     dev/bootstrap.sh servers     what tests on this machine talk to: PostgreSQL, Kafka, S3, and Spark's connectors for them
set -eu
cd "$(dirname "$0")/.."

case "${1:-main}" in
    packages | servers | node) venv='' lock='' ;;
    main) venv=.venv lock=requirements/dev.lock ;;
    spark35 | spark40 | spark42 | spark43) venv=.venv-$1 lock=requirements/$1.lock ;;
    *) echo "bootstrap: unknown environment '$1' (packages, node, main, spark35, spark40, spark42, spark43 or servers)" >&2; exit 2 ;;
esac

cache="${XDG_CACHE_HOME:-$HOME/.cache}/streamjob"

say() { printf '  %s\n' "$*"; }

# Install Debian packages, or say in one sentence who has to.
need() {
    reason=$1; shift
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
        echo "bootstrap: $reason: install it (Debian: $*) and run this again" >&2
        exit 1
    fi
    say "installing $*"
    mkdir -p .cache "$cache/locks"
    # Another part of a parallel `make` may be installing, too (dev/cluster/preconditions.py).
    exec 9>"$cache/locks/apt"
    flock 9
    if ! { DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" \
        || { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"; }; } \
        >.cache/apt.log 2>&1 9>&-; then # a service that a package starts would keep the lock
        tail -n 12 .cache/apt.log >&2
        echo "bootstrap: apt-get could not install $* (log: .cache/apt.log)" >&2
        exit 1
    fi
    exec 9>&-
}

java_release() {
    java -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1
}

# fetch FOLDER WHAT [POM TARGET]…: the dependencies of each POM, which may have options behind it, into a folder of
# the cache. Nothing is done if the POMs are the same as the last time.
fetch() {
    folder="$cache/$1" what=$2
    shift 2
    wanted=$(for part; do
        echo "$part"
        [ ! -f "${part%% *}" ] || cat "${part%% *}"
    done | sha256sum | cut -d' ' -f1)
    [ "$(cat "$folder/.stamp" 2>/dev/null)" != "$wanted" ] || return 0
    command -v mvn >/dev/null 2>&1 || need "$what come through Maven" maven
    say "$what"
    rm -rf "$folder"
    while [ $# -gt 0 ]; do
        # shellcheck disable=SC2086  options are words of their own
        mvn --batch-mode --quiet -Dstyle.color=never -f $1 dependency:copy-dependencies -DincludeScope=runtime \
            -DoutputDirectory="$folder/$2"
        shift 2
    done
    echo "$wanted" >"$folder/.stamp"
}

if [ "${1:-main}" = node ]; then
    # The page is bundled by a program of its own (esbuild), so any Node that is maintained will do.
    command -v npm >/dev/null 2>&1 || need "the page is built with Node" nodejs npm
    exit 0
fi
if [ "${1:-main}" = servers ]; then
    if ! ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; then
        need "the tests of the PostgreSQL sink need its server" postgresql
    fi
    if ! command -v prometheus >/dev/null 2>&1; then
        need "the test of the alerts needs Prometheus" prometheus
    fi
    if ! command -v chromium >/dev/null 2>&1; then
        need "the tests of the page need a browser" chromium fonts-dejavu-core
    fi
    if ! command -v tmux >/dev/null 2>&1; then
        need "the recording of a terminal needs tmux" tmux
    fi
    fetch jars "jars of Kafka and the connectors" dev/images/jars/pom.xml spark dev/kafka/pom.xml kafka
    fetch jars-kafka "jars of the Kafka connector for the other Sparks" "dev/images/jars/pom.xml -Dspark=3.5" 3.5 \
        "dev/images/jars/pom.xml -Dspark=4.0" 4.0 "dev/images/jars/pom.xml -Dspark=4.2" 4.2 "dev/images/jars/pom.xml -Dspark=4.3" 4.3
    fetch jars-s3 "jars of the connector for S3, for Spark 4.1 and 4.0" dev/s3/pom.xml 4.1 "dev/s3/pom.xml -Pspark40" 4.0
    fetch jars-tables "jars of Delta Lake and Apache Iceberg" "dev/tables/pom.xml -Dspark=3.5" 3.5 "dev/tables/pom.xml -Dspark=4.0" 4.0 \
        "dev/tables/pom.xml -Dspark=4.1" 4.1 "dev/tables/pom.xml -Dspark=4.2" 4.2
    rm -f "$cache"/jars-tables/4.2/iceberg-*
    python3 -m dev.s3
    exit 0
fi
command -v python3 >/dev/null 2>&1 || need "there is no python3" python3 python3-venv
if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "bootstrap: this needs Python 3.11 or newer, python3 is $(python3 -V 2>&1 | cut -d' ' -f2)" >&2
    exit 1
fi
python3 -c 'import ensurepip, venv' 2>/dev/null || need "python3 has no venv module" python3-venv
release=$(command -v java >/dev/null 2>&1 && java_release || true)
if [ "${release:-0}" -lt 17 ]; then
    mkdir -p /usr/share/man/man1 2>/dev/null || true # Java's package expects it, slim systems lack it
    need "Spark needs Java 17 or newer" openjdk-17-jre-headless
fi
[ -n "$venv" ] || exit 0

python=python3
if [ "${1:-main}" = spark35 ] && ! python3 -c 'import sys; sys.exit(sys.version_info >= (3, 12))'; then
    python=python3.11
    command -v $python >/dev/null 2>&1 || { echo "bootstrap: Spark 3.5 needs Python 3.11 or older, and there is no $python" >&2; exit 1; }
fi
stamp=$(cat "$lock" requirements/uv.lock "$0" | sha256sum | cut -d' ' -f1)
if [ -x "$venv/bin/python" ] && [ "$(cat "$venv/.stamp" 2>/dev/null)" = "$stamp" ]; then
    exit 0
fi
[ ! -L "$venv" ] || rm "$venv" # a link would lead `--clear` into somebody else's
say "Python environment $venv from $lock (the first time some minutes)"
$python -m venv --clear "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.lock
"$venv/bin/uv" pip install --quiet --python "$venv/bin/python" --require-hashes -r "$lock"
mkdir -p .cache
"$venv/bin/uv" cache prune --quiet # pyspark comes as source and leaves a build of 2 GB behind each time
# So that `.venv/bin/python -m dev.bench` and the like find the package without PYTHONPATH.
echo "$PWD/operator" >"$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/streamjob.pth"
say "an archive of Spark's classes, with which tests start sooner"
"$venv/bin/python" -m streamjob.jvm.class_archive >.cache/classes.log 2>&1 || say "none: see .cache/classes.log"
echo "$stamp" >"$venv/.stamp"
say "$venv is ready"
