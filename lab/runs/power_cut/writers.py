"""Clients that write to a coordinator, and what each of them knows of the database afterwards."""

import base64
import http.client
import json
import threading

# Relays that a writer has at most: fewer than a network may have.
RELAYS = 4


class Refused(Exception):
    """The coordinator gave an answer that no writer expects."""


class Writer:
    """A client with networks, keys, relays and nodes of its own, one request after the other. `states` are what the database has of its own after each
    change; `acknowledged` are the ids of the answers to them. The answer to change N was sent after the database was in state N + 1."""

    def __init__(self, number, token, nodes):
        self.number = number
        self.token = token
        self.port = None
        self.requests = []
        self.acknowledged = []
        self.nodes = list(nodes)
        self.networks, self.keys, self.relays = {}, {}, {}
        self.names = {node: name for node, name in nodes.items()}
        self.states = [self.state()]
        self.error = None
        self._answered = None

    def again(self, port, count, random):
        """Returns a thread that makes `count` more changes."""
        self.port = port
        return threading.Thread(target=self._work, args=(count, random), daemon=True)

    def state(self):
        """Returns all that is known, in the form of `seen`."""
        return {
            "networks": sorted(self.networks),
            "keys": sorted((number, revoked) for number, revoked in self.keys.values()),
            "relays": sorted(self.relays),
            "nodes": sorted(self.names.items()),
        }

    def seen(self, database):
        """Returns what a database has of this writer's own. Keys have the number that they had for the writer: 0 for the first of a network."""
        mine = f"w{self.number}-%"
        rows = database.execute("SELECT id, name FROM networks WHERE name LIKE ? ORDER BY name", (mine,)).fetchall()
        keys = []
        for number, (network, name) in enumerate(rows):
            found = database.execute("SELECT revoked_at IS NOT NULL FROM keys WHERE network = ? ORDER BY id", (network,))
            keys += [((name, place), bool(revoked)) for place, (revoked,) in enumerate(found)]
        places = ",".join("?" * len(self.nodes))
        return {
            "networks": [name for _, name in rows],
            "keys": sorted(keys),
            "relays": [name for (name,) in database.execute("SELECT name FROM relays WHERE name LIKE ? ORDER BY name", (mine,))],
            "nodes": database.execute(f"SELECT id, name FROM nodes WHERE id IN ({places}) AND removed_at IS NULL ORDER BY id", self.nodes).fetchall(),
        }

    def _work(self, count, random):
        try:
            for _ in range(count):
                random.choice(self._possible())(random)
        except Exception as error:  # noqa: BLE001 - the main thread raises it
            self.error = error

    def _possible(self):
        """Returns the changes that this writer can make now, the usual ones more often."""
        able = [self._create_network]
        if self.networks:
            able += [self._create_key] * 3
        if self.networks and len(self.relays) < RELAYS:
            able += [self._add_relay] * 2
        if any(not revoked for _, revoked in self.keys.values()):
            able.append(self._revoke_key)
        if self.relays:
            able.append(self._remove_relay)
        if self.names:
            able += [self._rename_node] * 3
        return able

    def _ask(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.request(method, f"/api/v1/{path}", json.dumps(body) if body is not None else None, {"authorization": f"Bearer {self.token}"})
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        if answer.status not in (200, 201):
            raise Refused(f"{method} {path}: {answer.status} {text.decode(errors='replace')}")
        self._answered = answer.headers["x-request-id"]
        return json.loads(text)

    def _done(self):
        self.acknowledged.append(self._answered)
        self.states.append(self.state())

    def _create_network(self, random):
        number = len(self.networks)
        name = f"w{self.number}-{number:04}"
        self._ask("POST", "networks", {"name": name, "ipv4_prefix": f"10.{self.number}.{number % 256}.0/24"})
        self.networks[name] = 0
        self._done()

    def _create_key(self, random):
        network = random.choice(list(self.networks))
        key = self._ask("POST", "keys", {"network": network, "one_off": random.random() < 0.5})["key"]["id"]
        self.keys[key] = ((network, self.networks[network]), False)
        self.networks[network] += 1
        self._done()

    def _revoke_key(self, random):
        key = random.choice([key for key, (_, revoked) in self.keys.items() if not revoked])
        self._ask("DELETE", f"keys/{key}")
        self.keys[key] = (self.keys[key][0], True)
        self._done()

    def _add_relay(self, random):
        network, name = random.choice(list(self.networks)), f"w{self.number}-{random.getrandbits(48):x}"
        endpoint = f"198.51.100.1:{random.randrange(1024, 65536)}"
        key = random.getrandbits(256).to_bytes(32, "little")
        self._ask("POST", "relays", {"network": network, "name": name, "key": base64.b64encode(key).decode(), "endpoints": [endpoint]})
        self.relays[name] = network
        self._done()

    def _remove_relay(self, random):
        name = random.choice(list(self.relays))
        self._ask("DELETE", f"relays/{name}?network={self.relays[name]}")
        del self.relays[name]
        self._done()

    def _rename_node(self, random):
        node, name = random.choice(list(self.names)), f"n{random.getrandbits(64):x}"
        self._ask("PATCH", f"nodes/{node}", {"name": name})
        self.names[node] = name
        self._done()
