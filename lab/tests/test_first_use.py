"""The README's "First real use": its commands in order, on Debian systems that boot and have only what the packages install. Needs `make packages`. Only `…` and the values that a
reader copies are filled in; packages are not built again."""

import contextlib
import json
import re
from dataclasses import dataclass

import pytest

from lab.hosts.booted import BootedHost, debian_root
from lab.hosts.namespace import call
from lab.hosts.net import Host
from lab.hosts.programs import ROOT
from lab.hosts.wait import PATIENCE_S, LabError, wait_until
from lab.tests import transcript
from lab.tests.test_packages import NEW, lacking, package
from lab.traffic.flow import ping
from lab.traffic.service import connects, serve

PAGE, SECTION = ROOT / "README.md", "First real use"
# The address of the coordinator's host on the page.
ADDRESS = "203.0.113.7"
API = f"http://{ADDRESS}:8288/api/v1"
PASSWORD = "correct horse battery"
# The beginnings of commands, and the hosts on which the reader types them. The packages are built, and the program of another build is that of this one.
PLACES = {
    "make ": (),
    "ls target/packages": (),
    "apt install ./taut-coordinator_": ("coordinator",),
    "apt install ./taut_": ("web", "nas", "anns-laptop", "bobs-laptop"),
    "echo 'FLAGS=": ("coordinator",),
    "systemctl enable --now taut-coordinator": ("coordinator",),
    "cat /var/lib/taut-coordinator/": ("coordinator",),
    "rm /var/lib/taut-coordinator/": ("coordinator",),
    "export ": ("coordinator",),
    "taut-coordinator ": ("coordinator",),
    "taut up --join ": ("web", "nas"),
    "taut service install": ("bare",),
    "taut ": ("web",),
}
# Commands that the text of the section and of "Uninstall" names, which need no more than a node that is up.
IN_THE_TEXT = ("taut hosts", "taut ip nas", "taut set --metrics 9288", "taut log", "taut bugreport", "taut down", "taut up")

pytestmark = [pytest.mark.programs, pytest.mark.skipif(bool(lacking()), reason=lacking())]


@dataclass
class Overlay:
    """A node as the services of tests see it."""

    host: Host
    ipv4: str


class Reader:
    """Types the commands of the page into its hosts. A method `after_…` does what the page expects a reader to do after a command that begins so."""

    def __init__(self, lab, stack):
        switch = lab.switch("internet")
        self.hosts = {}
        for name in ("coordinator", "web", "nas", "anns-laptop", "bobs-laptop", "bare"):
            host = lab.host(name, switch)
            if name == "coordinator":
                host.ip(f"address add {ADDRESS}/32 dev eth0")
            else:
                host.ip(f"route add {ADDRESS} via {self.hosts['coordinator'].host.ipv4}")
            self.hosts[name] = stack.enter_context(BootedHost(host, debian_root("trixie")))
            for program in ("taut", "taut-coordinator"):
                file = package("deb", name=program)
                self.hosts[name].copy(file, f"/root/{file.name}")
        self.exports = []
        # What the page shows, and what a reader has instead.
        self.values = {}
        self.outputs = {}
        self.done = set()

    def run(self, name, command):
        """Runs a command in the home directory of root."""
        words = ("sh", "-ec", "\n".join(["cd", *(self.exports if name == "coordinator" else ()), command]))
        done = self.hosts[name].run(*words, check=False, timeout=3 * PATIENCE_S)
        if done.returncode != 0:
            journal = self.hosts[name].run("journalctl", "--no-pager", "-n", "30", check=False).stdout
            raise LabError(f"{name}: exit status {done.returncode} of {command}\n{done.stdout}{done.stderr}\n{journal}")
        return done.stdout

    def type(self, step):
        places = next(places for beginning, places in PLACES.items() if step.command.startswith(beginning))
        command = step.command.partition("     #")[0]
        for written, meant in self.values.items():
            command = command.replace(written, meant)
        assert "…" not in command or not places, command
        if command.startswith("export "):
            self.exports.append(command)
        for name in places:
            output = self.run(name, command)
            # Figures and names on the page are another network's: the lines begin with the same words.
            wanted, lines = words(step.shown, name), iter(words(output.splitlines(), name))
            assert all(word in lines for word in wanted), f"{command} on {name} prints\n{output}, and the page shows\n{step.shown}"
            self.outputs[name, step.command] = output
        beginning = "_".join(re.findall(r"[a-z]+", step.command)[:4])
        for method in (method for method in AFTER if beginning.startswith(method.removeprefix("after_"))):
            getattr(self, method)(command)
            self.done.add(method)

    def status(self, name):
        return json.loads(self.run(name, "taut status --json"))

    def overlay(self, name):
        addresses = (one.partition("/")[0] for one in self.status(name)["self"]["addresses"])
        return Overlay(self.hosts[name].host, next(one for one in addresses if "." in one))

    def peers(self, name):
        return {peer["name"] for peer in self.status(name)["peers"]}

    def after_cat_var_lib(self, _):
        text = self.outputs["coordinator", "cat /var/lib/taut-coordinator/first-tokens"]
        said = dict(re.findall(r"^([a-z-]+): (\S+)$", text, re.MULTILINE))
        assert said["set-up"].startswith(f"http://{ADDRESS}:8288/link#set-up."), text
        self.values |= {"tautop-…": said["operator-token"], "taut1-…": said["join-token"]}

    def after_taut_up_join(self, _):
        wait_until(lambda: self.peers("web") == {"nas"}, "both nodes to be in the network")
        assert ping(self.hosts["web"].host, self.overlay("nas").ipv4, count=5)["received"] > 0

    def after_taut_netcheck(self, _):
        text = PAGE.read_text(encoding="utf-8")
        for command in IN_THE_TEXT:
            assert f"`{command}`" in text, command
            assert self.run("web", command) or "set" in command
        assert self.peers("web") == {"nas"}

    def after_taut_coordinator_devices_invite(self, _):
        """Each person runs the line on the own machine, opens the link that it prints, signs in, and approves the machine."""
        output = self.outputs["coordinator", "taut-coordinator devices invite"]
        for person in ("ann", "bob"):
            link = self.outputs["coordinator", f"taut-coordinator users create {person} --role member"]
            self.join_by_hand(person, re.search(r"#password\.(\S+)", link)[1], output.splitlines()[0])

    def join_by_hand(self, person, secret, line):
        name = f"{person}s-laptop"
        laptop = self.hosts[name]
        process = laptop.host.start(*laptop.command("sh", "-c", line), name="up")
        page = wait_until(lambda: re.search(rf"http://{ADDRESS}:8288/approve/(\S+)", process.err.read_text()), "a link", details=process.tail)
        # What the page does in a browser; lab/tests/test_approve_page.py has one.
        assert "<form" in self.fetch(name, page[0])
        self.fetch(name, f"{API}/password", {"secret": secret, "password": PASSWORD})
        session = json.loads(self.fetch(name, f"{API}/sign-in", {"name": person, "password": PASSWORD}))
        node = json.loads(self.fetch(name, f"{API}/requests/{page[1]}/approve", {"network": "default"}, session["csrf_token"]))["node"]
        assert (node["name"], node["owner"], node["state"]) == (name, person, "active")
        assert process.wait() == 0, process.tail()

    def fetch(self, name, url, body=None, csrf=None):
        """Fetches a page from a host by this machine's curl, with the cookies of that host's person."""
        host = self.hosts[name].host
        jar = host.state / "cookies"
        more = ("-H", "content-type: application/json", "-d", json.dumps(body)) if body else ()
        return host.run("curl", "-fsS", "--noproxy", "*", "-b", jar, "-c", jar, "-H", f"x-csrf-token: {csrf or ''}", *more, url).stdout

    def before_policy(self):
        [policy] = [text for text in transcript.fenced(PAGE, "json") if '"acls"' in text]
        self.run("coordinator", f"cat > policy.hujson <<'END'\n{policy}END")
        self.ann, self.bob = self.overlay("anns-laptop"), self.overlay("bobs-laptop")
        for node in (self.ann, self.bob):
            for port in (8080, 22):
                serve(node, port)
        assert connects(self.bob, self.ann, 22), "everybody reaches everybody at first"

    def after_taut_coordinator_policy_apply(self, _):
        wait_until(lambda: self.peers("anns-laptop") == {"bobs-laptop"}, "the policy to be in force")
        wait_until(lambda: not connects(self.ann, self.bob, 22), "the policy to be in force on the other machine")
        assert connects(self.ann, self.bob, 8080)
        assert ping(self.ann.host, self.bob.ipv4, count=3)["received"] > 0
        assert not connects(self.bob, self.ann, 8080)
        why = self.run("anns-laptop", "taut why bobs-laptop --port 22")
        assert re.search(r"version \d+", why) and "line" in why, why
        self.run("coordinator", "taut-coordinator policy rollback 1")
        wait_until(lambda: connects(self.bob, self.ann, 22), "the former policy to be in force")

    def after_taut_coordinator_nodes_remove(self, _):
        wait_until(lambda: "nas" not in self.peers("web"), "the removed node to be gone")

    def after_make_build_cp(self, _):
        self.hosts["bare"].copy(package("program"), "/usr/local/bin/taut")
        self.run("bare", "chmod 755 /usr/local/bin/taut")
        assert "UDP" in self.run("bare", f"taut netcheck http://{ADDRESS}:8288")

    def after_taut_service_install(self, _):
        assert self.run("bare", "systemctl is-active taut").strip() == "active"
        token = re.search(r"taut1-\S+", self.run("coordinator", "taut-coordinator keys create --network default"))[0]
        self.run("bare", f"taut up --join {token}")
        wait_until(lambda: "bare" in self.peers("web"), "the node without a package to be in the network")
        self.hosts["bare"].reboot()
        wait_until(lambda: ping(self.hosts["web"].host, self.overlay("bare").ipv4, count=3)["received"] > 0, "the node to be back after a reboot")

    def uninstall(self):
        """The first lines of the chapter "Uninstall"."""
        text = PAGE.read_text(encoding="utf-8")
        assert "`taut leave`, then `apt purge taut`" in text
        self.run("web", "taut leave")
        self.run("web", "echo y | apt purge taut")
        left = {path for path in self.hosts["web"].files() if "taut" in path and not path.startswith(("/root/", "/var/log/"))}
        assert left == set()


AFTER = [name for name in vars(Reader) if name.startswith("after_")]


def words(lines, name):
    """Returns the first word of each line, without repetitions and figures. The host of the page is `web`."""
    firsts = [line.split()[0] for line in lines if line.strip()]
    kept = [name if word == "web" else word for word in firsts if re.fullmatch(r"[A-Za-z][a-zA-Z-]*:?", word)]
    return [word for at, word in enumerate(kept) if at == 0 or kept[at - 1] != word]


def test_every_command_of_the_first_real_use_works_in_its_order(lab):
    steps = [step for step in transcript.steps(PAGE) if step.section == SECTION]
    assert steps[0].command.startswith("make packages TARGETS=x86-64") and steps[1].command == "ls target/packages"
    assert call("ls", NEW).stdout
    with contextlib.ExitStack() as stack:
        reader = Reader(lab, stack)
        for step in steps:
            if step.command.startswith("taut-coordinator policy apply"):
                reader.before_policy()
            reader.type(step)
        assert reader.done == set(AFTER), "the page has no such command any more"
        reader.uninstall()
