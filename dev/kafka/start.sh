#!/bin/sh
# Without arguments, start the broker. With arguments, run a Kafka class with the same class path instead:
#   start.sh org.apache.kafka.tools.TopicCommand --bootstrap-server kafka:9092 --list
set -e

kafka() {
  exec java ${KAFKA_HEAP:--Xms256m -Xmx512m} -XX:+UseSerialGC \
    -Dlog4j.configuration=file:/opt/kafka/log4j.properties -cp '/opt/kafka/jars/*' "$@"
}

if [ $# -gt 0 ]; then
  KAFKA_HEAP=-Xmx128m kafka "$@"
fi

# The broker advertises the Service's name to pods, and the pod's address, which the host can route to, to clients there.
pods="${KAFKA_ADVERTISED:-kafka:9092}"
host="${POD_IP:-localhost}:9094"
{ cat /opt/kafka/server.properties; echo "advertised.listeners=PODS://$pods,HOST://$host"; } > /tmp/server.properties

# After a restart of the container, the data is formatted already.
(KAFKA_HEAP=-Xmx128m kafka kafka.tools.StorageTool format --ignore-formatted \
  --cluster-id c3RyZWFtam9iLWthZmthMQ --config /tmp/server.properties)
kafka kafka.Kafka /tmp/server.properties
