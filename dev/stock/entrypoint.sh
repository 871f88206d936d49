#!/bin/bash
# The entry point of an image that is laid out as Spark's own. It does what the one of apache/spark-docker does:
#   driver …     spark-submit in client mode, under tini
#   executor     Java with what the driver's scheduler says in SPARK_* variables, under tini
#   else         the command as it is: no tini, and no entry in /etc/passwd for a user that has none
set -eo pipefail

# Give a user without an entry in /etc/passwd one, for this process and its children.
name_user() {
  getent passwd "$(id -u)" >/dev/null && return
  local library
  for library in /usr/lib/libnss_wrapper.so /usr/lib/*/libnss_wrapper.so; do
    [ -s "$library" ] || continue
    NSS_WRAPPER_PASSWD=$(mktemp) NSS_WRAPPER_GROUP=$(mktemp)
    export LD_PRELOAD=$library NSS_WRAPPER_PASSWD NSS_WRAPPER_GROUP
    echo "spark:x:$(id -u):$(id -g):${SPARK_USER_NAME:-anonymous uid}:$SPARK_HOME:/bin/false" >"$NSS_WRAPPER_PASSWD"
    echo "spark:x:$(id -g):" >"$NSS_WRAPPER_GROUP"
    return
  done
}

start() {
  name_user
  local as=()
  [ "$(id -u)" != 0 ] || as=(gosu spark)
  exec "${as[@]}" /usr/bin/tini -s -- "$@"
}

if [ -n "$HADOOP_HOME" ] && [ -z "$SPARK_DIST_CLASSPATH" ]; then
  SPARK_DIST_CLASSPATH=$("$HADOOP_HOME/bin/hadoop" classpath)
  export SPARK_DIST_CLASSPATH
fi

case "$1" in
  driver)
    shift
    start "$SPARK_HOME/bin/spark-submit" \
      --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" \
      --conf "spark.executorEnv.SPARK_DRIVER_POD_IP=$SPARK_DRIVER_BIND_ADDRESS" \
      --deploy-mode client "$@"
    ;;
  executor)
    options=()
    for name in "${!SPARK_JAVA_OPT_@}"; do
      options+=("${!name}")
    done
    classpath="$SPARK_CLASSPATH:$SPARK_HOME/jars/*${SPARK_EXTRA_CLASSPATH:+:$SPARK_EXTRA_CLASSPATH}"
    classpath="${HADOOP_CONF_DIR+$HADOOP_CONF_DIR:}$classpath"
    classpath="${SPARK_CONF_DIR-$SPARK_HOME/conf}:$classpath:$PWD:$SPARK_DIST_CLASSPATH"
    start "${JAVA_HOME:-$(dirname "$(dirname "$(readlink -f "$(command -v java)")")")}/bin/java" "${options[@]}" \
      "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" -cp "$classpath" \
      org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
      --driver-url "$SPARK_DRIVER_URL" \
      --executor-id "$SPARK_EXECUTOR_ID" \
      --cores "$SPARK_EXECUTOR_CORES" \
      --app-id "$SPARK_APPLICATION_ID" \
      --hostname "$SPARK_EXECUTOR_POD_IP" \
      --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
      --podName "$SPARK_EXECUTOR_POD_NAME"
    ;;
  *)
    exec "$@"
    ;;
esac
