"""The page docs/people.md: its commands in order, on a machine where every path and address is as on the page; its settings; and its requests with curl. Only `…` and a reader's own values are filled in."""

import json
import re

import pytest

from lab.hosts import needs
from lab.hosts.programs import ROOT, binary
from lab.hosts.wait import wait_until
from lab.nodes import oidc_provider
from lab.nodes.oidc_provider import SECRET, OidcProvider
from lab.nodes.taut import Node
from lab.tests import transcript
from lab.tests.machine import Machine

PAGE = ROOT / "docs" / "people.md"
ADDRESS, LOCAL = "203.0.113.7", "http://127.0.0.1:8288"
URL = f"http://{ADDRESS}:8288"
PASSWORD = "correct horse battery"
# Commands of the page's tables, about the user of its examples.
_IN_TABLE = re.compile(r"^\|.*?\|(.*)\|$", re.MULTILINE)
_COMMAND = re.compile(r"`(users [a-z-]+ bob)`")
LACKING = oidc_provider.missing() or needs.missing_reason("curl", "jq")


class Reader:
    """Types the commands of the page into a machine with a coordinator. A method `type_…` does so in its own way for commands that begin so, and `after_…` does what the page expects after one."""

    def __init__(self, lab):
        switch = lab.switch("lan")
        host = lab.host("coord", switch)
        host.run("ip", "address", "add", f"{ADDRESS}/32", "dev", "lo")
        self.machine = Machine(host, "127.0.0.1 coord")
        self.run(f"install {binary('taut-coordinator')} /usr/local/bin/\ninstall -d /etc/taut /var/lib/taut-coordinator\necho '{SECRET}' > /etc/taut/oidc-secret")
        self.provider = OidcProvider(host, f"{URL}/oidc/callback")
        options = ("--oidc-issuer", self.provider.issuer, "--oidc-client-id", "taut", "--oidc-client-secret-file", "/etc/taut/oidc-secret")
        scopes = [word for scope in ("profile", "email", "groups") for word in ("--oidc-scope", scope)]
        where = ("--listen", "0.0.0.0:8288", "--url", URL)
        host.start("taut-coordinator", "serve", *where, *options, *scopes, "--oidc-allow-group", "staff", "--oidc-allow-private", name="coordinator").wait_for_output("listening on")
        self.operator_token = self.first("operator-token")
        self.laptop = Node(lab.host("laptop", switch))
        self.laptop.host.run("ip", "route", "add", ADDRESS, "via", host.ipv4)
        self.laptop.start().up(self.first("join-token"))
        # What stands on the page, and what it is for this reader.
        self.values = {f"{URL}/link#set-up.…": self.first("set-up"), "tautop-…": self.operator_token, "https://taut.example": LOCAL}
        self.outputs = {}

    def run(self, commands):
        """Runs commands in the home directory, where a reader would, and returns their output."""
        return self.machine.run(f"cd\n{commands}")

    def first(self, label):
        """Returns a secret of the first start."""
        return self.run(f"sed -n 's/^{label}: *//p' /var/lib/taut-coordinator/first-tokens").strip()

    def type(self, step):
        command = step.command
        for written, meant in self.values.items():
            command = command.replace(written, meant)
        assert "…" not in command, command
        words = re.sub(r"^taut-coordinator ", "", command).replace("-", "_").split()
        own = [getattr(self, name) for name in (f"type_{'_'.join(words[:count])}" for count in (2, 1)) if hasattr(self, name)]
        output = own[0](step, command) if own else self.shown(step, command)
        self.outputs[step.command] = output
        getattr(self, f"after_{'_'.join(words[:2])}", lambda: None)()

    def shown(self, step, command):
        output = self.run(command)
        assert step.is_shown(output), f"{command} prints\n{output}, and the page shows\n{step.shown}"
        return output

    def type_users_set_up(self, step, command):
        return self.run(f"echo '{PASSWORD}' | {command}")

    def type_sign_in(self, step, command):
        """A person follows the link meanwhile. The page shows values of another provider, so only the beginnings of the lines are compared."""
        process = self.machine.host.start("env", "HOME=/root", "sh", "-c", f"exec {command}", name="sign-in")
        wait_until(lambda: "waiting" in process.err.read_text() or not process.alive, "the provider's page", details=process.tail)
        self.provider.sign_in(re.search(r"or open (\S+)", process.err.read_text())[1], "ann")
        assert process.wait() == 0, process.tail()
        beginnings = [line.split()[0] for line in step.shown if line]
        said = [line.split()[0] for line in (process.err.read_text() + process.output()).splitlines() if line]
        assert [word for word in said if word in beginnings] == beginnings, process.tail()
        return process.output()

    def after_users_role(self):
        """Bob has his role, so the commands of the table can act on him; and the person at the provider signs in for the first time."""
        if "bob none" not in list(self.outputs)[-1]:
            return
        rows = "".join(_IN_TABLE.findall(PAGE.read_text()))
        commands = list(dict.fromkeys(_COMMAND.findall(rows)))
        assert len(commands) >= 7, commands
        for command in sorted(commands, key=lambda command: "remove bob" in command):
            self.run(f"taut-coordinator {command}")
        assert "bob" not in self.run("taut-coordinator users list")
        self.provider.sign_in(f"{URL}/oidc/begin", "ann")
        users = json.loads(self.run("taut-coordinator users list --json"))["users"]
        [number] = [user["id"] for user in users if user["email"] == "ann@example.com"]
        self.values["users role 7 "] = f"users role {number} "

    def after_nodes_list(self):
        self.machine.variables["TAUT_OPERATOR_TOKEN"] = self.operator_token


@pytest.fixture
def reader(lab):
    return Reader(lab)


@pytest.mark.programs
@pytest.mark.skipif(bool(LACKING), reason=LACKING)
def test_every_command_of_the_page_works_in_its_order(reader):
    steps = transcript.steps(PAGE)
    for step in steps:
        reader.type(step)
    outputs = reader.outputs
    assert len(outputs) == len({step.command for step in steps}) > 15
    assert "laptop" in outputs["taut-coordinator nodes list"], "with the token of the person who signed in in the terminal"
    changes = [json.loads(line) for line in reader.run("cat audit.jsonl").splitlines()]
    assert {"user-created", "token-created"} <= {change["action"] for change in changes}, changes[0]
    # The requests with curl: the password by the secret of a link, and a token by the session.
    [block] = transcript.fenced(PAGE, "sh")
    secret = re.search(r"#password\.(\S+)", reader.run("taut-coordinator users reset ann"))[1]
    answer = reader.run(block.replace("https://taut.example", LOCAL).replace("SECRET", secret))
    assert "tautapi-" in answer


@pytest.mark.programs
def test_the_settings_of_the_page_are_complete(lab):
    machine = Machine(lab.host("coord", lab.switch("lan")), "127.0.0.1 coord")
    machine.run(f"install {binary('taut-coordinator')} /usr/local/bin/\ninstall -d /etc/taut\necho '{SECRET}' > /etc/taut/oidc-secret")
    settings = transcript.fenced(PAGE, "toml")
    assert len(settings) == 3
    for text in settings:
        machine.run(f"cat > /etc/taut/coordinator.toml <<'END'\n{text}END\ntaut-coordinator config check")
