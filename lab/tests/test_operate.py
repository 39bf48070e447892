"""The operator's page docs/operate.md: its commands, run in order as they are there, on three machines with real programs and nginx. Only systemd is a stand-in."""

import base64
import json
import os
import sys

import pytest

from lab.hosts import needs
from lab.hosts.namespace import call
from lab.hosts.programs import ROOT, binary
from lab.hosts.wait import wait_until
from lab.tests.drill import sections
from lab.tests.machine import Machine

PAGE = ROOT / "docs" / "operate.md"
NAME = "taut.example"
# The beginning of a block that is not for the coordinator's host, and the machines that it is for. The operator's own machine is the node's here.
ELSEWHERE = {
    "# On your own machine": ["node"],
    "# On the node's host": ["node"],
    "# On the relay's host": ["relay"],
    "# On each node's host": ["node"],
    "# On each relay's host": ["relay"],
}
# Variables that a reader copies from one host to another.
COPIED = ("JOIN", "RELAY_TOKEN", "RELAY_KEY", "TAUT_OPERATOR_TOKEN")
# What a newer release leaves in the database: a migration that this one does not know.
NEWER = """
import sqlite3
database = sqlite3.connect("/var/lib/taut-coordinator/coordinator.db")
columns = "description, installed_on, success, checksum, execution_time"
database.execute(f"INSERT INTO _sqlx_migrations SELECT version + 1000, {columns} FROM _sqlx_migrations LIMIT 1")
database.commit()
"""
pytestmark = pytest.mark.skipif(bool(needs.missing_reason("curl", "nginx", "openssl")), reason=needs.missing_reason("curl", "nginx", "openssl"))


class Network:
    """The machines of the page. A section may be prepared by a method `before_…` and checked by `after_…`."""

    def __init__(self, lab):
        switch = lab.switch("internet")
        hosts = [lab.host(name, switch) for name in ("coordinator", "relay", "node")]
        self.coordinator, self.relay, self.node = (Machine(host, f"{hosts[0].ipv4} {NAME}") for host in hosts)
        programs = {"BUILD": str(binary("taut-coordinator").parent)}
        for machine in self.machines():
            machine.variables |= programs
        self.coordinator.variables |= {"NAME": NAME, "ADDRESS": hosts[0].ipv4, "RELAY_ADDRESS": hosts[1].ipv4}
        self.relay.variables |= {"NAME": NAME}
        self.node.variables |= {"NAME": NAME}

    def machines(self):
        return self.coordinator, self.relay, self.node

    def run(self, block):
        """Runs a block on its machines, and returns the output. What it tells the reader to copy is then known everywhere."""
        places = next((places for beginning, places in ELSEWHERE.items() if block.startswith(beginning)), ["coordinator"])
        assert places != ["coordinator"] or not block.startswith("# On "), f"a block for an unknown host:\n{block}"
        output = ""
        for place in places:
            machine = getattr(self, place)
            output += machine.run(block)
            copied = {name: machine.variables[name] for name in COPIED if name in machine.variables}
            for other in self.machines():
                other.variables |= copied
        return output

    def status(self):
        return json.loads(self.node.run("taut status --json || true"))

    def relays(self):
        return {(one["name"], one["state"]) for one in self.status()["relays"]}

    def is_up(self):
        return self.status()["coordinator"]["connected"] and ("coordinator", "bound") in self.relays()

    def wait_for_node(self):
        wait_until(self.is_up, "the node to have a channel and a relay", details=self.coordinator.journals)

    def nodes(self):
        return {node["name"] for node in json.loads(self.coordinator.run("taut-coordinator nodes list --json"))["nodes"]}

    def after_install(self, output):
        assert f"https://{NAME}" in output and "coordinator.toml, line 1" in output

    def after_first_start(self, output):
        assert '"warnings":[]' in output.replace(" ", ""), output
        assert "first-tokens" not in "".join(self.coordinator.traces())

    def after_tls(self, output):
        assert "default" in output

    def after_the_first_node(self, output):
        assert "up" in output
        self.wait_for_node()
        assert f'address="{self.node.host.ipv4} via 127.0.0.1"' in self.coordinator.journal("taut-coordinator")

    def after_relays(self, output):
        assert "far" in output
        wait_until(lambda: ("far", "bound") in self.relays(), "the relay to serve the node", details=self.relay.journals)
        wait_until(lambda: "relay-connected" in self.coordinator.journal("taut-coordinator"), "the relay's channel", details=self.relay.journals)

    def after_nodes_without_tls(self, output):
        token = self.coordinator.variables["JOIN"].removeprefix("taut1-")
        urls = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        assert f"https://{NAME}".encode() in urls and f"http://{NAME}".encode() in urls

        def answers():
            return [self.node.run(f"curl -s -o /dev/null -w '%{{http_code}}' http://{NAME}/{path}") for path in ("key", "api/v1/nodes", "")]

        # nginx goes on with its former configuration for a moment.
        wait_until(lambda: answers() == ["200", "404", "404"], "nginx to pass paths of nodes alone", details=self.coordinator.journals)
        self.wait_for_node()

    def before_day_to_day(self):
        self.first_token = self.coordinator.variables["TAUT_OPERATOR_TOKEN"]
        # A second node, which the page renames and removes.
        join = self.coordinator.run("taut-coordinator keys create | sed -n 's/^join-token: //p'").strip()
        install = 'install "$BUILD/taut" /usr/local/bin/; install -m 644 dist/systemd/taut.service /etc/systemd/system/; systemctl start taut'
        self.relay.run(f"{install}; taut up --join {join} --hostname attic")
        assert self.nodes() == {"web", "attic"}

    def after_day_to_day(self, output):
        assert self.nodes() == {"web"}
        refused = self.coordinator.run(f"! TAUT_OPERATOR_TOKEN={self.first_token} taut-coordinator nodes list")
        assert "is not known" in refused, refused
        self.relay.run("taut leave || true; systemctl stop taut; rm -rf /usr/local/bin/taut /etc/systemd/system/taut.service /var/lib/taut")

    def after_monitoring(self, output):
        assert "taut_coordinator_nodes_online 1\n" in output, output

    def after_backups(self, output):
        assert self.coordinator.run("ls /var/backups/taut/taut-*.db")

    def after_upgrade(self, output):
        assert call(binary("taut-coordinator"), "version").stdout in output
        self.wait_for_node()

    def before_go_back(self):
        """A newer release changed the tables: the previous one says so, and needs the backup."""
        self.coordinator.run("systemctl stop taut-coordinator")
        self.coordinator.host.run(sys.executable, "-I", "-c", NEWER)
        assert "newer program upgraded the database" in self.coordinator.run("! taut-coordinator check")

    def after_go_back(self, output):
        assert "nodes that joined since then" in output
        assert self.nodes() == {"web"}
        self.wait_for_node()

    def after_trouble(self, output):
        assert output.startswith("active\n") and "event=started" in output and "\nok\n" in output, output

    def after_removal(self, output):
        for machine in self.machines():
            kept = {f"{machine.variables['HOME']}/taut-ca.pem", "/usr/local/bin/taut-coordinator"} if machine is self.node else set()
            assert machine.traces() - machine.before == kept, machine.host.name
            assert not [name for name in machine.processes() if name.startswith("taut")]
        assert not self.node.host.run("ip", "link", "show", "taut0", check=False).stdout


def method(title):
    """Returns the part of a method's name that stands for a section."""
    return title.lower().replace(" ", "_")


@pytest.mark.programs
def test_every_command_of_the_operators_page_works_from_the_bare_host_to_the_removal(lab):
    page = sections(PAGE)
    titles = list(dict.fromkeys(title for title, _ in page))
    hooks = {name.partition("_")[2] for name in vars(Network) if name.startswith(("before_", "after_"))}
    assert hooks <= {method(title) for title in titles}, "a section of the page has another name, or no commands"
    before = os.listdir("/etc"), os.listdir("/usr/local/bin"), os.listdir("/var/lib")
    network, ran = Network(lab), []
    for title in titles:
        getattr(network, f"before_{method(title)}", lambda: None)()
        output = ""
        for block in [block for section, block in page if section == title]:
            if "taut-ca.pem" in block:
                certificate = network.coordinator.host.run("cat", "/etc/taut/tls/ca.pem").stdout
                network.node.run(f"cat > ~/taut-ca.pem <<'END'\n{certificate}END")
            output += network.run(block)
            ran.append((title, block))
        getattr(network, f"after_{method(title)}", lambda output: None)(output)
    assert ran == page
    assert before == (os.listdir("/etc"), os.listdir("/usr/local/bin"), os.listdir("/var/lib")), "the machine of the test was changed"
