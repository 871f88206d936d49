"""`helm test`, with HOST PORT REPLICAS SECONDS: wait until each replica is healthy and one of them leads."""

import json
import socket
import sys
import time
import urllib.request

HOST, PORT, REPLICAS, PATIENCE = sys.argv[1], *map(int, sys.argv[2:])


def look() -> list[dict[str, object]]:
    """Ask each replica. One that is not healthy answers 503, which raises an OSError."""
    found = socket.getaddrinfo(HOST, PORT, type=socket.SOCK_STREAM)
    hosts = sorted({f"[{a[0]}]" if ":" in str(a[0]) else str(a[0]) for *_, a in found})
    answers = []
    for host in hosts:
        with urllib.request.urlopen(f"http://{host}:{PORT}/healthz", timeout=5) as answer:
            answers.append(json.load(answer))
    return answers


deadline = time.monotonic() + PATIENCE
while True:
    try:
        seen: object = look()
        leaders = [answer for answer in seen if answer["leads"]]
        if len(seen) == REPLICAS and len(leaders) == 1:
            break
    except OSError as error:
        seen = error
    if time.monotonic() > deadline:
        sys.exit(f"{HOST}: not {REPLICAS} healthy replicas with one leader within {PATIENCE} s: {seen}")
    time.sleep(1)
print(f"{REPLICAS} replicas are healthy, one of them leads: {seen}")
