"""The page docs/policy.md: its commands in order, with its own files, before three real nodes; and each of its examples is a policy."""

import re

import pytest

from lab.hosts.namespace import call
from lab.hosts.programs import ROOT, binary
from lab.hosts.wait import wait_until
from lab.nodes.mesh import Mesh
from lab.nodes.taut import Coordinator, Node
from lab.tests import transcript
from lab.traffic.service import connects, serve

PAGE = ROOT / "docs" / "policy.md"
# What the examples that are parts of a file refer to.
AROUND = '{"groups": {"group:dev": ["ann@example.com"]}, "tagOwners": {"tag:web": [], "tag:db": [], "tag:router": [], "tag:exit": []}, %s}'
RULES = '"grants": [{"src": ["group:dev"], "dst": ["tag:web"], "ip": ["tcp:443"]}, {"src": ["tag:web"], "dst": ["tag:db"], "ip": ["tcp:5432"]}]'


def examples():
    """Returns (the policy, the nodes, the parts of files) of the page."""
    policy, nodes, *parts = transcript.fenced(PAGE, "json")
    return policy, nodes, parts


@pytest.mark.programs
@pytest.mark.parametrize("number", range(4))
def test_each_example_of_the_page_is_accepted(lab, number):
    parts = examples()[2]
    assert len(parts) == 4, "the page has another number of examples"
    part = parts[number].strip().rstrip(",")
    host = lab.host("reader", lab.switch("desk"))
    file = host.state / "policy.hujson"
    file.write_text(AROUND % (part if "acls" in part else f"{part}, {RULES}"))
    host.run(binary("taut-coordinator"), "policy", "check", file)


# Time for one of the checks, 3,000 s: the differential test of 10,000,000 pairs takes minutes after its build.
CHECK_S = 3000


@pytest.mark.parametrize("command", dict.fromkeys(re.findall(r"`(cargo [^`]+)` \|$", PAGE.read_text(), re.MULTILINE)))
def test_each_check_that_the_page_names_passes(command):
    call("bash", "-c", f"cd {ROOT} && . tools/env && find_rust && {command}", timeout=CHECK_S)


@pytest.mark.programs
def test_every_command_of_the_page_says_what_the_page_says(lab):
    switch = lab.switch("lan")
    coordinator = Coordinator(lab.host("coord", switch)).start()
    nodes = [Node(lab.host(name, switch)) for name in ("laptop", "web1", "db1")]
    net = Mesh(lab, [switch], coordinator, nodes)
    net.join(*nodes)
    laptop, web, db = nodes
    coordinator.cli("devices", "owner", "laptop", "ann@example.com")
    policy, described, _ = examples()
    for name, text in (("policy.hujson", policy), ("nodes.json", described)):
        (coordinator.host.state / name).write_text(text)
    env = {"TAUT_API": f"http://127.0.0.1:{coordinator.port}", "TAUT_OPERATOR_TOKEN": coordinator.operator_token}
    outputs = {}
    for step in transcript.steps(PAGE):
        words = step.command.replace("taut-coordinator", str(binary("taut-coordinator")), 1)
        done = coordinator.host.run("sh", "-c", f"cd {coordinator.host.state} && {words}", env=env)
        assert step.is_shown(done.stdout), f"{step.command} prints\n{done.stdout}, and the page shows\n{step.shown}"
        verb = step.command.split()[2]
        outputs[verb] = done.stdout
        if verb == "apply":
            # Only now are there tags.
            for node, tag in ((web, "tag:web"), (db, "tag:db")):
                coordinator.cli("devices", "tag", node.name, tag)
            laptop.wait_for_peers("web1")
            serve(web, 443)
            wait_until(lambda: connects(laptop, web, 443), "the rule to be in force")
            assert "is denied" in laptop.taut("why", "web1", "--port", 80).stdout
    assert set(outputs) == {"check", "explain", "compile", "show", "diff", "apply", "history", "rollback"}
    assert outputs["explain"].startswith("allowed") and "only what each team needs" in outputs["history"]
    # The rollback restored the rule of a new network.
    laptop.wait_for_peers("web1", "db1")
