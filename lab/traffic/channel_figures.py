"""Reads the figures of coordinators at even intervals: a plain program that `lab.runs.ha_watch` starts inside a host. Needs no other file.

    channel_figures.py INTERVAL ADDRESS:PORT…

Prints a JSON line per look: {"at" (CLOCK_MONOTONIC), "channels": [open control channels of each coordinator, null without an answer], "opened": [channels opened since its start]}.
Ends when standard input closes.
"""

import http.client
import json
import re
import select
import sys
import time

# Longest wait for a coordinator in seconds.
PATIENCE_S = 0.5
FIGURE = re.compile(r"^taut_coordinator_(channels|channels_opened_total) (\d+)", re.M)


def look(place):
    """Returns the figures of one coordinator by name, empty if it does not answer."""
    host, _, port = place.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=PATIENCE_S)
    try:
        connection.request("GET", "/metrics")
        return {name: int(value) for name, value in FIGURE.findall(connection.getresponse().read().decode())}
    except (OSError, http.client.HTTPException, ValueError):
        return {}
    finally:
        connection.close()


def main():
    interval, places = float(sys.argv[1]), sys.argv[2:]
    due = time.monotonic()
    while not select.select([sys.stdin], [], [], max(0.0, due - time.monotonic()))[0]:
        due = max(due + interval, time.monotonic())
        seen = [look(place) for place in places]
        row = {"at": round(time.monotonic(), 3), "channels": [one.get("channels") for one in seen], "opened": [one.get("channels_opened_total") for one in seen]}
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
