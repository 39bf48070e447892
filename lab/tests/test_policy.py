"""Policies between real nodes: what a rule allows passes, everything else does not, and a change takes effect at once."""

import json

from lab.hosts.wait import wait_until
from lab.traffic.flow import Transfer, ping
from lab.traffic.service import connects, serve


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


def test_taut_why_names_the_version_and_the_line_that_decide(mesh, tmp_path):
    net, web, db, other = tagged(mesh)
    apply(net, tmp_path, rules(("tag:web", "tag:db:5432")))
    web.wait_for_peers(db.name)
    other.wait_for_peers()
    allowed = json.loads(web.taut("why", db.name, "--port", 5432, "--json").stdout)
    assert (allowed["verdict"], allowed["policy_version"], allowed["path"]["peer"]) == ("allowed", 2, db.name)
    denied = web.taut("why", db.name, "--port", 22).stdout
    assert denied.startswith(f"policy: tcp port 22 of {db.name} is denied to this host\n") and "version 2" in denied and "line 1 (acls 1)" in denied
    ping_back = json.loads(db.taut("why", web.ipv4, "--proto", "icmp", "--json").stdout)
    assert (ping_back["verdict"], ping_back["rules"]) == ("denied", [])
    hidden, nobody = (other.taut("why", name, "--port", 5432, check=False) for name in (db.name, "nobody"))
    assert hidden.returncode == nobody.returncode == 1
    assert hidden.stderr.replace(db.name, "nobody") == nobody.stderr, "a hidden node is answered like one that does not exist"
    net.coordinator.kill()
    web.wait_for(lambda status: not status["coordinator"]["connected"], "to notice that")
    assert "only the coordinator knows the policy" in web.taut("why", db.name, "--port", 22, check=False).stderr


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
