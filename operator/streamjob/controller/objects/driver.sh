#!/bin/sh
# Starts the StreamJob runtime beside this script with the Python and the Spark of the image. The controller mounts both.
# Arguments (savepoint list …) are the runtime's; a driver has none.
# An image that cannot run it is refused before anything is written: the reason goes to the pod's termination message.
here=$(dirname "$0")

refuse() { # reason, message, remedy
    echo "streamjob: $1: $2. $3" >&2
    text=$(printf '{"reason": "%s", "message": "%s", "remedy": "%s"}' "$1" "$(echo "$2" | tr -d '"\\\000-\037')" "$3")
    echo "$text" >"${STREAMJOB_TERMINATION_LOG:-/dev/termination-log}"
    exit 2
}

# `python -m` looks into the working directory first: it would run a script of that name in our place.
for file in streamjob.py streamjob/__init__.py; do
    [ ! -e "$file" ] || refuse RuntimeHidden "$file in the working directory of spec.image hides the package of StreamJob" \
        "Rename it, or set another workingDir for the container driver in spec.driver.template"
done

# 3: too old; 4: it has no pyspark, or one without py4j. A mere folder of that name is no package.
probe='import sys
if sys.version_info < (3, 10): sys.exit(3)
from importlib.util import find_spec
found = [find_spec(name) for name in ("pyspark", "py4j")]
if not all(spec and spec.origin for spec in found): sys.exit(4)'

# The image's variables may name a program that is no plain Python (jupyter, ipython).
found= said=
for python in "${PYSPARK_DRIVER_PYTHON:-}" "${PYSPARK_PYTHON:-}" python3 python; do
    [ -n "$python" ] && command -v "$python" >/dev/null 2>&1 || continue
    "$python" -c "$probe"
    said=$?
    found=$python
    case $said in
    0 | 3 | 4) break ;;
    esac
done
[ -n "$found" ] || refuse PythonMissing "spec.image has no Python (python3 is not on its PATH)" \
    "Use an image with Python 3.10 or newer, such as a tag of apache/spark that ends in -python3"

case $said in
0) paths= ;;
3) refuse PythonTooOld "$found of spec.image is $("$found" -V 2>&1)" "StreamJob needs Python 3.10 or newer: use a newer image" ;;
4)
    # Spark's own images have pyspark in SPARK_HOME and not on Python's path.
    home=
    for folder in "${SPARK_HOME:-}" /opt/spark; do
        if [ -n "$folder" ] && [ -f "$folder/python/pyspark/__init__.py" ]; then
            home=$folder
            break
        fi
    done
    [ -n "$home" ] || refuse PysparkMissing "spec.image has no pyspark: $found does not find it, and SPARK_HOME has none" \
        "Install pyspark into the image, or use one with Spark and Python, such as a tag of apache/spark that ends in -python3"
    export SPARK_HOME="$home"
    paths=$home/python
    for library in "$home"/python/lib/py4j-*-src.zip; do
        [ ! -f "$library" ] || paths=$paths:$library
    done
    ;;
*)
    [ "$said" -le 128 ] || exit "$said" # killed, for want of memory for instance: another driver may start
    refuse PythonBroken "$found of spec.image does not run" "See the driver's log, and repair the image"
    ;;
esac
export PYTHONPATH="$here/streamjob.zip${paths:+:$paths}${PYTHONPATH:+:$PYTHONPATH}"

# Hadoop needs a name for the user. A platform may run the pod as a user that the image does not know.
user=$(id -u)
if ! { getent passwd "$user" || grep "^[^:]*:[^:]*:$user:" /etc/passwd; } >/dev/null 2>&1; then
    wrapper=
    for library in /usr/lib/libnss_wrapper.so /usr/lib/*/libnss_wrapper.so /usr/lib64/libnss_wrapper.so; do
        [ ! -s "$library" ] || wrapper=$library
    done
    line="spark:x:$user:$(id -g):Spark:/tmp:/bin/false"
    if [ -n "$wrapper" ]; then
        NSS_WRAPPER_PASSWD=$(mktemp) NSS_WRAPPER_GROUP=$(mktemp)
        echo "$line" >"$NSS_WRAPPER_PASSWD"
        echo "spark:x:$(id -g):" >"$NSS_WRAPPER_GROUP"
        # An image may preload another allocator.
        export LD_PRELOAD="$wrapper${LD_PRELOAD:+:$LD_PRELOAD}" NSS_WRAPPER_PASSWD NSS_WRAPPER_GROUP
    elif [ -w /etc/passwd ]; then
        echo "$line" >>/etc/passwd
    else
        refuse UserUnknown "spec.image has no user with the id $user, and Hadoop needs one" \
            "Set runAsUser in spec.driver.template (spec.securityContext) and in spec.executor.template to a user of the image; in apache/spark it is 185"
    fi
fi
# Ivy and pip, for instance, write there.
[ -n "${HOME:-}" ] && [ -w "$HOME" ] || export HOME=/tmp

# As the first process of the container, Python would not reap the workers that outlive their parent.
if [ $$ = 1 ] && command -v tini >/dev/null 2>&1; then
    exec tini -s -- "$found" -m streamjob.runtime "$@"
fi
exec "$found" -m streamjob.runtime "$@"
