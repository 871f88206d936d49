#!/bin/bash
# Entry point of the driver image. Spark's Kubernetes scheduler starts executor pods with the single argument
# `executor` and describes the executor in SPARK_* variables; everything else is a command to run as it is.
# tini is the first process in both cases: it reaps Python workers and hands SIGTERM on.
set -e

if [ "$1" != executor ]; then
  exec /usr/bin/tini -s -- "$@"
fi
shift

options=()
while name="SPARK_JAVA_OPT_${#options[@]}" && [ -n "${!name+set}" ]; do
  options+=("${!name}")
done

classpath="${SPARK_CONF_DIR:-$SPARK_HOME/conf}:${HADOOP_CONF_DIR:+$HADOOP_CONF_DIR:}$SPARK_HOME/jars/*"
classpath="$classpath${SPARK_CLASSPATH:+:$SPARK_CLASSPATH}${SPARK_EXTRA_CLASSPATH:+:$SPARK_EXTRA_CLASSPATH}"
classpath="$classpath${SPARK_DIST_CLASSPATH:+:$SPARK_DIST_CLASSPATH}"

exec /usr/bin/tini -s -- "$JAVA_HOME/bin/java" "${options[@]}" \
  "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" -cp "$classpath" \
  org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
  --driver-url "$SPARK_DRIVER_URL" \
  --executor-id "$SPARK_EXECUTOR_ID" \
  --cores "$SPARK_EXECUTOR_CORES" \
  --app-id "$SPARK_APPLICATION_ID" \
  --hostname "$SPARK_EXECUTOR_POD_IP" \
  --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
  --podName "$SPARK_EXECUTOR_POD_NAME"
