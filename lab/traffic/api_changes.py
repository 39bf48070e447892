"""Changes through a coordinator's HTTP API at an even rate: a plain program that `lab.runs.ha_load` starts inside a host. Needs no other file.

    api_changes.py URL FIRST RATE     operator token in $TAUT_OPERATOR_TOKEN

Change N creates an enrolment key that is valid for FIRST + N seconds: the number identifies the change in the database. Every third key is revoked a moment later. Each change is one
request on a connection of its own and is never repeated. Ends when standard input closes. Prints a JSON line for each request:
{"at" and "ended" (CLOCK_MONOTONIC), "what": "create" or "revoke", "number", "id", "status" (null without an answer), "error", "unclear": no answer, or one that says that the change may
have been made}.
"""

import http.client
import json
import os
import select
import sys
import threading
import time
import urllib.parse

# Longest wait for an answer in seconds: longer than a coordinator waits for its database.
PATIENCE_S = 30
# One key of so many is revoked.
REVOKED = 3
# Words of the coordinator's answer if it lost its database while the change was being stored.
MAYBE = "may have been made"

_printing = threading.Lock()


def ask(place, method, path, body=None):
    """Sends one request; returns (status, parsed answer), or (None, reason) if no whole answer came."""
    headers = {"Authorization": f"Bearer {os.environ['TAUT_OPERATOR_TOKEN']}", "Content-Type": "application/json"}
    connection = http.client.HTTPConnection(place.hostname, place.port, timeout=PATIENCE_S)
    try:
        connection.request(method, f"/api/v1{path}", None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    except (OSError, http.client.HTTPException, ValueError) as error:
        return None, f"{type(error).__name__}: {error}"
    finally:
        connection.close()


def record(what, number, key, place, *request):
    """Sends a request, prints what became of it, and returns (status, answer)."""
    at = time.monotonic()
    status, answer = ask(place, *request)
    fault = {"code": answer, "message": MAYBE} if status is None else answer.get("error", {})
    if status == 201:
        key = answer["key"]["id"]
    row = {"at": at, "ended": time.monotonic(), "what": what, "number": number, "id": key, "status": status, "error": fault.get("code"), "unclear": MAYBE in fault.get("message", "")}
    with _printing:
        print(json.dumps(row), flush=True)
    return status, key


def change(place, first, number):
    """Creates key `number`; revokes it if its turn has come."""
    status, key = record("create", number, None, place, "POST", "/keys", {"expires_in": first + number})
    if status == 201 and number % REVOKED == 0:
        record("revoke", number, key, place, "DELETE", f"/keys/{key}")


def main():
    place, first, rate = urllib.parse.urlsplit(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    start, number, threads = time.monotonic(), 0, []
    while not select.select([sys.stdin], [], [], max(0.0, start + number / rate - time.monotonic()))[0]:
        # A change that hangs does not delay the next one.
        thread = threading.Thread(target=change, args=(place, first, number))
        thread.start()
        threads.append(thread)
        number += 1
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
