"""Policies between real nodes: what a rule allows passes, everything else does not, and a change takes effect at once."""

import json
import sys

from lab.hosts.wait import wait_until
from lab.traffic.flow import Transfer, ping

SERVE = (
    "import socket,sys\n"
    "s=socket.create_server((sys.argv[1],int(sys.argv[2])))\n"
    "print('ready',flush=True)\n"
    "while True:\n"
    " c,_=s.accept(); c.sendall(b'hello'); c.close()\n"
)
CONNECT = (
    "import socket,sys\n"
    "s=socket.create_connection((sys.argv[1],int(sys.argv[2])),timeout=float(sys.argv[3])); assert s.recv(9)==b'hello'\n"
)


def serve(node, port):
    """Runs a service of TCP on a node's overlay address."""
    service = node.host.start(sys.executable, "-I", "-c", SERVE, node.ipv4, port, name=f"service-{port}")
    service.wait_for_output("ready")


def connects(source, target, port, timeout=1.5):
    """Returns true if a connection over the overlay is answered."""
    words = (sys.executable, "-I", "-c", CONNECT, target.ipv4, port, timeout)
    return source.host.run(*words, check=False).returncode == 0


def apply(net, folder, policy, *options, check=True):
    path = folder / "policy.hujson"
    path.write_text(json.dumps(policy) if isinstance(policy, dict) else policy)
    return net.coordinator.cli("policy", "apply", str(path), *options, check=check)


def rules(*pairs):
    """Returns a policy in which tags reach tags and ports."""
    acls = [{"action": "accept", "src": [source], "dst": [target]} for source, target in pairs]
    return {"tagOwners": {"tag:web": [], "tag:db": [], "tag:other": []}, "acls": acls}


def tagged(mesh):
    net = mesh(nodes=3)
    for node, tag in zip(net.nodes, ("tag:web", "tag:db", "tag:other"), strict=True):
        net.coordinator.cli("devices", "tag", node.name, tag)
    net.connect()
    return net, *net.nodes


def test_fault_g1_g8_a_rule_lets_one_port_of_one_node_in_and_nothing_else(mesh, tmp_path):
    net, web, db, other = tagged(mesh)
    for port in (5432, 5433):
        serve(db, port)
    assert connects(other, db, 5432) and connects(web, db, 5433), "everybody reaches everybody at first"
    transfer = Transfer(other.host, db.host, db.ipv4)
    transfer.flows_on(100_000)
    apply(net, tmp_path, rules(("tag:web", "tag:db:5432")))
    db.wait_for_peers(web.name)
    web.wait_for_peers(db.name)
    other.wait_for_peers()
    assert connects(web, db, 5432) and not connects(web, db, 5433)
    assert not connects(other, db, 5432)
    # Ping passes where anything does; the answers to what web began pass although no rule names them.
    assert ping(web.host, db.ipv4, count=3)["received"] == 3
    before = transfer.received
    assert not connects(db, web, 5432), "the rule has one direction"
    assert transfer.received == before, "the transfer that the rule forbids is cut"
    assert db.status()["drops"]["in-policy"] > 0
    refused = [line for line in db.taut("log", "--json").stdout.splitlines() if "packet-filtered" in line]
    assert refused and web.name in refused[0], refused
    # A rollback restores the earlier policy.
    net.coordinator.cli("policy", "rollback", "1")
    db.wait_for_peers(web.name, other.name)
    assert connects(web, db, 5433)
    wait_until(lambda: connects(other, db, 5432), "the former policy to be in force")


def test_a_connection_goes_on_when_a_policy_forbids_only_the_other_direction(mesh, tmp_path):
    net, web, db, _ = tagged(mesh)
    transfer = Transfer(web.host, db.host, db.ipv4)
    transfer.flows_on(1_000_000)
    # The receiver's port is not known here, so all ports of db stay open to web; db may not open anything at web.
    apply(net, tmp_path, rules(("tag:web", "tag:db:*")))
    db.wait_for_peers(web.name)
    transfer.flows_on(1_000_000)
    # The daemon of the sender starts again: its table of flows is empty, and the answers still pass.
    web.stop()
    web.start()
    web.wait_for(lambda status: status["state"] == "running", "to run again")
    transfer.flows_on(1_000_000)
    assert transfer.finish()["equal"]


def test_a_policy_is_explained_compared_and_refused_with_its_place(mesh, tmp_path):
    net, web, db, other = tagged(mesh)
    apply(net, tmp_path, rules(("tag:web", "tag:db:5432")), "--comment", "only the database")
    cli = net.coordinator.cli
    allowed = cli("policy", "explain", web.name, f"{db.name}:5432").stdout
    assert allowed.startswith("allowed") and "version 2:" in allowed, allowed
    assert cli("policy", "explain", other.name, f"{db.name}:5432").stdout.startswith("denied")
    assert "only the database" in cli("policy", "history").stdout
    path = tmp_path / "next.hujson"
    path.write_text(json.dumps(rules(("tag:web", "tag:db:5432,5433"))))
    assert "5433" in cli("policy", "diff", str(path)).stdout
    answer = apply(net, tmp_path, '{"acls": [\n {"action": "accept", "src": ["tag:nobody"], "dst": ["*:*"]}]}', check=False)
    assert answer.returncode == 1 and "line 2" in answer.stderr and "tag:nobody" in answer.stderr, answer
    assert "version 2" in cli("policy", "show").stdout


def test_fault_e18_the_filter_outlives_its_coordinator_and_a_restart_of_the_node(mesh, tmp_path):
    net, web, db, _ = tagged(mesh)
    serve(db, 5433)
    apply(net, tmp_path, rules(("tag:web", "tag:db:5432")))
    db.wait_for_peers(web.name)
    wait_until(lambda: not connects(web, db, 5433), "the policy to be in force")
    net.coordinator.kill()
    db.kill()
    db.start()
    db.wait_for(lambda status: status["state"] == "running", "to run again")
    wait_until(lambda: ping(web.host, db.ipv4, count=2)["received"] == 2, "the nodes to reach each other again")
    assert not connects(web, db, 5433)
