"""Crashes of the PostgreSQL server of a coordinator: what the coordinator acknowledged is there afterwards."""

import http.client
import json
import os
import random
import subprocess
import tempfile
from pathlib import Path

import pytest

from lab.hosts.programs import binary
from lab.hosts.wait import wait_until
from lab.nodes import local_postgres as postgres

CRASHES = 10
# Longest time between two looks of the server's own process that writes late commits, in milliseconds: without help a commit would be lost.
LATE_MS = 10_000

pytestmark = [pytest.mark.programs, pytest.mark.skipif(bool(postgres.lacking()), reason=postgres.lacking())]


@pytest.fixture
def server():
    with tempfile.TemporaryDirectory(prefix="taut-lab-postgres-") as folder:
        os.chmod(folder, 0o755)
        server = postgres.Postgres(Path(folder, "server"), synchronous_commit="off", wal_writer_delay=f"{LATE_MS}ms").initialize().start()
        yield server
        server.stop()


@pytest.fixture
def coordinator(server, tmp_path):
    """Starts a coordinator on the server; returns its port and an operator token."""
    words = [binary("taut-coordinator"), "serve", "--state", tmp_path / "state", "--listen", "127.0.0.1:0", "--url", "http://192.0.2.1:8288"]
    environment = {**os.environ, "TAUT_DATABASE": server.url()}
    process = subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
    try:
        listening = next(line for line in process.stdout if line.startswith("listening on "))
        tokens = dict(line.split(": ") for line in (tmp_path / "state" / "first-tokens").read_text().splitlines())
        yield int(listening.rpartition(":")[2]), tokens["operator-token"]
    finally:
        process.terminate()
        process.communicate()


def ask(coordinator, method, body=None):
    """Sends a request about keys; returns the status and the answer."""
    port, token = coordinator
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request(method, "/api/v1/keys", body, {"authorization": f"Bearer {token}"})
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    return answer.status, json.loads(text)


def test_fault_o2_a_server_that_crashes_has_what_was_acknowledged(server, coordinator):
    acknowledged = set()
    # What the first start made is not in question.
    server.ask("CHECKPOINT")
    for _ in range(CRASHES):
        for _ in range(random.randrange(1, 8)):
            status, answer = ask(coordinator, "POST", "{}")
            assert status == 201, answer
            acknowledged.add(answer["key"]["id"])
        server.kill()
        server.start()
        # The coordinator tries again after a pause.
        wait_until(lambda: ask(coordinator, "GET")[0] == 200, "the coordinator to reach its database")
        wait_until(lambda: ask(coordinator, "POST", "{}")[0] == 201, "the coordinator to write")
        there = {key["id"] for key in ask(coordinator, "GET")[1]["keys"]}
        assert acknowledged <= there, f"lost: {acknowledged - there}"
