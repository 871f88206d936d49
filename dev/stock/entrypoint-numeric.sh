#!/bin/bash
# The entry point of an image as kubernetes/dockerfiles of Spark's distribution makes it: a user without an entry in
# /etc/passwd gets one there if the file can be written, and tini is the parent of every command.
set -e

if ! getent passwd "$(id -u)" >/dev/null; then
  if [ -w /etc/passwd ]; then
    echo "$(id -u):x:$(id -u):$(id -g):${SPARK_USER_NAME:-anonymous uid}:$SPARK_HOME:/bin/false" >>/etc/passwd
  else
    echo "/etc/passwd cannot be written: there is no entry for this user" >&2
  fi
fi

case "$1" in
  driver | executor) exec /opt/entrypoint-named.sh "$@" ;; # which starts tini
  *) exec /usr/bin/tini -s -- "$@" ;;
esac
