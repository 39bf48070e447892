"""The control load of `make ha-demo`: keys that are created and revoked through the balancer, and whether the database has exactly those that were acknowledged."""

import json
import sys

from ..hosts.programs import ROOT

# Lifetime in seconds of the first key: longer than that of the key that the first start makes, so that the numbers of the changes are told from it.
FIRST = 100_000_000
_CHANGES = (sys.executable, "-I", str(ROOT / "lab" / "traffic" / "api_changes.py"))
_ROWS = f"SELECT id, expires_at - created_at - {FIRST}, revoked_at IS NOT NULL FROM keys WHERE expires_at - created_at >= {FIRST} ORDER BY id"


class Load:
    """Changes at an even rate until `finish`."""

    def __init__(self, site):
        self._database = site.database
        words = (site.url, FIRST, site.shape.rate)
        self._process = site.operator.start(*_CHANGES, *words, name="changes", env={"TAUT_OPERATOR_TOKEN": site.operator_token})

    def finish(self):
        """Ends the changes; returns (requests, what the database says of them)."""
        self._process.close_input()
        self._process.wait()
        requests = [json.loads(line) for line in self._process.output().splitlines()]
        return requests, compare(requests, stored(self._database))


def stored(database):
    """Returns the keys of the load in the database, as (id, number of the change, revoked)."""
    rows = (line.split("|") for line in database.sql(_ROWS).splitlines())
    return [(int(number), int(change), revoked == "t") for number, change, revoked in rows]


def acknowledged(request):
    return request["status"] in (200, 201)


def compare(requests, keys):
    """Compares the answers with the keys in the database. All but the first two numbers must be 0.

    `missing`: acknowledged and not there; `twice`: there more than once; `refused_but_made`: the answer said that nothing was changed; `unclear_and_made` is allowed.
    """
    made = {}
    for key, change, revoked in keys:
        made.setdefault(change, []).append((key, revoked))
    seen = {"acknowledged": 0, "unclear_and_made": 0, "missing": 0, "twice": sum(len(rows) > 1 for rows in made.values()), "refused_but_made": 0}
    for request in requests:
        rows = made.get(request["number"], [])
        there = any(revoked for _, revoked in rows) if request["what"] == "revoke" else bool(rows)
        if acknowledged(request):
            seen["acknowledged"] += 1
            seen["missing"] += not there or request["id"] not in [key for key, _ in rows]
        elif there:
            seen["unclear_and_made" if request["unclear"] else "refused_but_made"] += 1
    return seen
