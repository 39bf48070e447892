"""An exit node's routing on the host, and the kill switch: what leaves in the clear, and what is left behind."""

import json
import os
import platform
import random
import shutil
import sys
from pathlib import Path

import pytest

from lab.hosts import without_sockets
from lab.hosts.programs import binary
from lab.hosts.wait import PATIENCE_S, wait_until
from lab.nodes.exits import SERVER, udp_answer
from lab.nodes.full_tunnel import FullTunnel
from lab.nodes.subnets import seen_as, serve
from lab.nodes.taut import Node
from lab.runs import kill_switch as schedules
from lab.traffic import bound as bound_program
from lab.traffic import public_names

# By day a few schedules; a night runs as many as the figure is about.
NIGHT = 200
DAY = 2
# From Linux 5.12 on a table of nftables may end with the program that made it.
TABLES_END = tuple(int(number) for number in platform.release().split(".")[:2]) >= (5, 12)


def rules(host, family="-4"):
    """Returns our routing rules of a family."""
    lines = host.run("ip", family, "rule", "show").stdout.splitlines()
    return [line for line in lines if "proto 116" in line]


def tables(host):
    """Returns the names of our tables of nftables."""
    return sorted(line.split()[-1] for line in host.run("nft", "list", "tables").stdout.splitlines() if "taut0_" in line)


def alone(net, *words, check=True):
    """Runs `taut kill-switch` with the state and the socket of the client."""
    return net.client.host.run(binary("taut"), "kill-switch", *words, "--state", net.client.state, "--socket", net.client.socket, check=check)


def switch(net):
    """Returns the kill switch as `taut kill-switch status --json` shows it."""
    return json.loads(alone(net, "--json").stdout)["kill_switches"][0]


def strict(host, on):
    """Sets the reverse path filter of the physical interface: strict, or loose as the lab has it."""
    for name in ("all", "eth0"):
        host.run("sysctl", "-qw", f"net.ipv4.conf.{name}.rp_filter={1 if on else 2}")


def test_fault_j7_everything_but_our_own_packets_takes_the_exit_node(lab):
    net = FullTunnel(lab)
    net.choose()
    host = net.client.host
    assert seen_as(host, SERVER[1]) == net.public(ipv6=True)
    # The path to the exit node is direct: our packets do not go round in circles.
    assert net.client.ping_until_direct("exit1")
    # The local network is out of reach, unless the user wants it.
    serve(net.bystander, 7171)
    assert seen_as(host, net.bystander.ipv4, 7171, timeout=0.5) is None
    net.client.taut("set", "--exit-node-allow-lan-access")
    wait_until(lambda: seen_as(host, net.bystander.ipv4, 7171, timeout=0.5) == host.ipv4, "the local network to answer")
    assert seen_as(host, net.bystander.ipv6, 7171, timeout=0.5) == host.ipv6
    net.client.taut("set", "--exit-node", "none")
    wait_until(lambda: not rules(host) + rules(host, "-6"), "the rules to be gone")
    assert tables(host) == ["taut0_guard"] and seen_as(host, SERVER[0], timeout=0.5) is None


def test_fault_j5_what_has_no_way_into_the_overlay_goes_nowhere(lab):
    # Sockets that name the interface, and IPv6 without the overlay's; programs of containers take the same routes.
    net = FullTunnel(lab)
    net.choose()
    host = net.client.host
    capture, talk = net.listen(), net.talk()
    for address in ("2001:db8:77::9", "198.18.0.9", net.bystander.ipv4):
        host.run("ping", "-c", "1", "-W", "1", "-I", "eth0", address, check=False)
    host.run("sysctl", "-qw", "net.ipv6.conf.taut0.disable_ipv6=1")
    wait_until(lambda: "dev taut0" not in host.run("ip", "-6", "route", "show", "table", "29696").stdout, "the device to have no IPv6")
    host.run("ping", "-c", "1", "-W", "1", "2001:db8:77::9", check=False)
    talk.wait()
    found = capture.finish()
    assert found["clear"] == 0, found


def bound(host, kind, address, port, *mark):
    """Asks a service by TCP or UDP from a socket that is bound to the network interface; returns the address that it sees, or the name of an error."""
    return host.run(sys.executable, "-I", Path(bound_program.__file__), "eth0", kind, address, port, *mark).stdout.strip()


def test_fault_j5_programs_that_name_the_interface_do_not_go_past_the_exit_node(lab):
    # The gateway pretends to be a host of the internet.
    net = FullTunnel(lab)
    host, pretended = net.client.host, "198.18.0.9"
    net.rogue.ip(f"address add {pretended}/32 dev lo")
    serve(net.rogue, 80)
    serve(net.bystander, 80)
    net.serve_udp(net.rogue, 53, pretended)
    net.serve_udp(net.rogue, 67, net.rogue.ipv4)
    before = bound(host, "tcp", pretended, 80), bound(host, "udp", pretended, 53)
    assert before == (host.ipv4, host.ipv4), "the witness"
    net.choose()
    # A program fails at once.
    assert bound(host, "tcp", pretended, 80) == "ConnectionRefusedError"
    assert bound(host, "udp", pretended, 53) == "PermissionError"
    assert bound(host, "tcp", net.bystander.ipv4, 80) == "ConnectionRefusedError"
    # Without any route Linux takes the address for a neighbour, who may answer.
    host.ip("route del default")
    assert bound(host, "tcp", pretended, 80) == "ConnectionRefusedError"
    # What a network needs goes on: routes with gateways, and DHCP.
    net.default_routes()
    host.ip(f"route add 10.9.0.0/16 via {net.rogue.ipv4}")
    assert udp_answer(host, net.rogue.ipv4, port=67, own=68) == (host.ipv4, 68)
    # A rule of another program that is asked before ours wins, as that of another VPN for its own packets.
    host.run("ip", "rule", "add", "pref", "5210", "fwmark", "0x80000/0xff0000", "lookup", "main")
    wait_until(lambda: bound(host, "tcp", pretended, 80, "0x80000") == host.ipv4, "packets with the mark to pass")
    assert bound(host, "tcp", pretended, 80) == "ConnectionRefusedError"
    net.client.taut("set", "--exit-node-allow-lan-access")
    wait_until(lambda: bound(host, "tcp", net.bystander.ipv4, 80) == host.ipv4, "the local network to answer")
    assert bound(host, "tcp", pretended, 80) == "ConnectionRefusedError"
    net.client.taut("set", "--exit-node", "none")
    assert bound(host, "tcp", pretended, 80) == host.ipv4


def test_fault_j8_rules_and_routes_are_restored_once(lab):
    net = FullTunnel(lab)
    net.choose()
    host = net.client.host
    before = rules(host), rules(host, "-6")
    assert len(before[0]) == 3 and len(before[1]) == 2
    for _ in range(3):
        host.run("ip", "rule", "flush")
        host.run("ip", "-6", "rule", "del", "pref", "5301")
        host.run("ip", "route", "flush", "table", "29696")
        wait_until(lambda: (rules(host), rules(host, "-6")) == before, "the rules to be back", timeout=2)
        # Without the kernel's own rules, our packets still find their way.
        wait_until(lambda: seen_as(host, SERVER[0], timeout=0.5), "the internet to answer")
    # A second one is removed.
    host.run("ip", "rule", "add", "pref", "5301", "not", "fwmark", "0x74000000/0xfe000000", "lookup", "29697", "proto", "116")
    wait_until(lambda: rules(host) == before[0], "no others than ours to be there", timeout=3)
    assert "exit-restored" in net.client.taut("log").stdout


@pytest.mark.parametrize("end", ["down", "stop", "kill"])
def test_fault_j9_the_host_is_as_before_after_the_end(lab, end):
    net = FullTunnel(lab)
    host = net.client.host
    net.client.taut("down")
    net.client.stop()
    before = host.network_state(), host.hidden_state()
    # The strict reverse path filter needs a switch, which is as before at the end.
    strict(host, True)
    net.client.start()
    net.client.up()
    net.choose("exit1", "--kill-switch")
    assert rules(host) and len(tables(host)) == 4
    assert host.run("sysctl", "-n", "net.ipv4.conf.eth0.rp_filter").stdout.strip() == "2"
    match end:
        case "down":
            net.client.taut("down")
        case "stop":
            net.client.stop()
        case "kill":
            net.client.kill()
            # The crash left rules, which the next start removes; the kill switch stays until the user ends it.
            assert tables(host) == ["taut0_kill_switch"]
            net.client.start()
            net.client.taut("down")
    if end == "stop":
        assert tables(host) == ["taut0_kill_switch"]
        assert "removed" in alone(net, "remove").stdout
    net.client.stop()
    assert host.run("sysctl", "-n", "net.ipv4.conf.eth0.rp_filter").stdout.strip() == "1"
    strict(host, False)
    assert (host.network_state(), host.hidden_state()) == before


def test_fault_j10_a_connection_from_outside_stays_on_its_way(lab):
    net = FullTunnel(lab)
    host = net.client.host
    # The strictest reverse path filter.
    strict(host, True)
    serve(host, 7171)
    net.choose()
    for source in (net.bystander, net.rogue):
        assert seen_as(source, host.ipv4, 7171, timeout=1) == source.ipv4
        assert seen_as(source, host.ipv6, 7171, timeout=1) == source.ipv6
    # Under the kill switch that would leave in the clear: it is for the local network alone, and only if that is allowed.
    net.client.taut("set", "--kill-switch")
    assert seen_as(net.bystander, host.ipv4, 7171, timeout=0.5) is None
    net.client.taut("set", "--exit-node-allow-lan-access")
    wait_until(lambda: seen_as(net.bystander, host.ipv4, 7171, timeout=0.5) == net.bystander.ipv4, "the local network to be answered")
    net.wait_for_tunnel()


# A service that sends each line back, and a client that keeps one connection to it.
_ECHO = (
    "import socket,sys\n"
    "s=socket.create_server(('0.0.0.0',int(sys.argv[1]))); print('ready',flush=True)\n"
    "c,_=s.accept()\n"
    "while d:=c.recv(99): c.sendall(d)\n"
)
_KEEP = (
    "import socket,sys\n"
    "s=socket.create_connection((sys.argv[1],int(sys.argv[2]))); print('ready',flush=True)\n"
    "for line in sys.stdin: s.sendall(line.encode()); print('heard',s.recv(99).decode().strip(),flush=True)\n"
)


@pytest.mark.parametrize("tracked", [False, True])
def test_fault_j10_a_session_that_is_open_when_the_exit_node_is_chosen_goes_on(lab, tracked):
    # With a firewall of the host the kernel knows the connection already.
    net = FullTunnel(lab)
    host = net.client.host
    if tracked:
        host.run("nft", "add table inet firewall; add chain inet firewall input { type filter hook input priority 0; }; add rule inet firewall input ct state established accept")
    host.start(sys.executable, "-I", "-c", _ECHO, 7171, name="echo").wait_for_output("ready")
    session = net.rogue.start(sys.executable, "-I", "-c", _KEEP, host.ipv4, 7171, name="session")
    session.wait_for_output("ready")
    for word in ("before", "after"):
        session.write(f"{word}\n")
        wait_until(lambda word=word: f"heard {word}" in session.output(), f"the answer to {word}", timeout=10, details=session.tail)
        net.choose()


def test_fault_j10_a_command_that_would_end_its_own_ssh_session_is_refused(lab):
    net = FullTunnel(lab)
    client = net.client
    command = [binary("taut"), "set", "--exit-node", "exit1", "--kill-switch", "--socket", client.socket]
    session = {"SSH_CONNECTION": f"{net.bystander.ipv4} 50000 {client.host.ipv4} 22"}
    done = client.host.run(*command, check=False, env=session)
    assert done.returncode == 1 and "ssh" in done.stderr and "--exit-node-allow-lan-access" in done.stderr, done
    assert client.status()["kill_switch"] is None
    client.host.run(*command, "--exit-node-allow-lan-access", env=session)
    client.taut("set", "--kill-switch=false", "--exit-node-allow-lan-access=false")
    client.host.run(*command, "--cut-ssh", env=session)
    assert client.status()["kill_switch"]["in_force"]


@pytest.mark.parametrize("fault", schedules.FAULTS, ids=lambda fault: fault.__name__)
def test_fault_j1_j2_j3_j5_nothing_leaves_in_the_clear(lab, fault):
    found = schedules.measure(lab, [[fault.__name__]])
    assert found["clear_packets"] == 0 and found["sealed_frames"] > 0, found


def test_fault_j1_nothing_leaves_in_the_clear_over_random_schedules(lab):
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    count = NIGHT if os.environ.get("TAUT_THOROUGH") else DAY
    found = schedules.measure(lab, schedules.plan(seed, count))
    assert found["clear_packets"] == 0, found


def test_fault_j1_without_the_kill_switch_the_daemons_end_is_seen(lab):
    # The witness: the capture finds packets in the clear where there are some.
    net = FullTunnel(lab)
    net.choose()
    capture, talk = net.listen(), net.talk()
    net.client.stop()
    talk.wait()
    assert capture.finish()["clear"] > 0


def test_fault_j9_a_crash_without_the_kill_switch_leaves_a_host_that_works(lab):
    net = FullTunnel(lab)
    host = net.client.host
    serve(net.rogue, 80)
    serve(host, 7171)
    for address in ("198.18.0.9/32 dev lo", "2001:db8:77::9/128 dev lo"):
        net.rogue.ip(f"address add {address}")
    net.choose()
    assert seen_as(host, "198.18.0.9", 80, timeout=0.5) is None
    held = tables(host)
    net.client.kill()
    # No daemon and no command puts the host back: what held packets was the daemon's own. A table that stays holds none once the kernel has emptied its set.
    wait_until(lambda: seen_as(host, "198.18.0.9", 80) == host.ipv4, "packets to leave again", timeout=0 if TABLES_END else PATIENCE_S)
    assert seen_as(host, "2001:db8:77::9", 80) == host.ipv6
    assert bound(host, "tcp", "198.18.0.9", 80) == host.ipv4
    assert seen_as(net.rogue, host.ipv4, 7171) == net.rogue.ipv4 and seen_as(net.rogue, host.ipv6, 7171) == net.rogue.ipv6
    assert tables(host) == ([] if TABLES_END else held) and not host.run("ip", "route", "show", "table", "29696", check=False).stdout
    # The next start takes over.
    net.client.start()
    net.wait_for_tunnel()
    assert seen_as(host, "198.18.0.9", 80, timeout=0.5) is None
    assert len(rules(host)) == 3


@pytest.mark.skipif(not without_sockets.possible(), reason="needs a kernel with seccomp filters on a known processor")
def test_a_host_without_nftables_uses_no_exit_node_and_says_so(lab):
    net = FullTunnel(lab)
    host = net.client.host
    serve(net.rogue, 80)
    net.rogue.ip("address add 198.18.0.9/32 dev lo")

    def restart_without_nftables():
        net.client.stop()
        host.prefix = [sys.executable, "-I", without_sockets.__file__, "nftables"]
        net.client.start()
        host.prefix = []

    restart_without_nftables()
    for words in (("--exit-node", "exit1"), ("--kill-switch",), ("--advertise-exit-node",), ("--advertise-routes", "192.168.7.0/24")):
        refused = net.client.taut("set", *words, check=False)
        assert refused.returncode == 1 and "needs nftables" in refused.stderr and "modprobe nf_tables" in refused.stderr, refused
    status = net.client.status()
    assert status["exit"]["chosen"] == "none" and status["kill_switch"] is None
    # The same settings, made on another kernel.
    net.client.stop()
    net.client.start()
    net.choose("exit1", "--kill-switch")
    alone(net, "pause", "1h")
    restart_without_nftables()
    for event in ("exit-failed", "kill-switch-failed"):
        wait_until(lambda event=event: event in net.client.taut("log").stdout, f"the log to have {event}")
    warnings = " ".join(one["message"] for one in net.client.status()["warnings"])
    assert "leave in the clear" in warnings and "kill switch is not in force" in warnings, warnings
    assert not rules(host) and seen_as(host, "198.18.0.9", 80) == host.ipv4


def test_fault_j1_neither_the_coordinator_nor_a_lost_device_ends_the_choice(lab):
    # Without the kill switch, while the daemon runs.
    net = FullTunnel(lab)
    net.choose()
    host = net.client.host
    serve(host, 7171)
    capture, talk = net.listen(), net.talk()
    host.run("ip", "link", "del", "taut0")
    talk.wait()
    net.wait_for_tunnel()
    net.coordinator.cli("nodes", "remove", "client")
    net.client.wait_for(lambda status: status["state"] == "needs-join", "the refusal")
    talk.wait()
    talk.end()
    found = capture.finish()
    assert found["clear"] == 0, found
    # A DHCP client may still add routes; nobody is locked out, and the user is told how to end it.
    net.default_routes()
    assert seen_as(net.rogue, host.ipv4, 7171, timeout=1) == net.rogue.ipv4
    assert seen_as(net.rogue, host.ipv6, 7171, timeout=1) == net.rogue.ipv6
    assert "--exit-node none" in net.client.taut("status", check=False).stdout
    net.client.taut("set", "--exit-node", "none")
    assert not rules(host) + rules(host, "-6")
    assert not host.run("ip", "route", "show", "table", "29696", check=False).stdout


def test_a_kill_switch_is_removed_whatever_the_device_is_called_now(lab):
    net = FullTunnel(lab)
    net.choose("exit1", "--kill-switch")
    net.client.taut("set", "--tun", "work0")
    net.client.taut("set", "--kill-switch=false")
    assert not [name for name in tables(net.client.host) if "kill" in name]
    net.client.taut("set", "--kill-switch")
    net.client.stop()
    net.client.start()
    net.wait_for_tunnel()
    # The table of the former name went with the first start under the new one.
    assert not [name for name in tables(net.client.host) if "taut0_kill" in name]


def test_fault_k2_damaged_settings_do_not_end_the_kill_switch_and_a_command_does(lab):
    net = FullTunnel(lab)
    net.choose("exit1", "--kill-switch")
    net.client.stop()
    for path in net.client.state.glob("settings*"):
        path.write_bytes(bytes(64))
    net.client.start()
    net.client.wait_for(lambda status: (status["kill_switch"] or {}).get("in_force"), "the kill switch that an earlier run left")
    assert "earlier run" in net.client.taut("status", check=False).stdout
    net.client.taut("set", "--kill-switch=false")
    assert "taut0_kill_switch" not in tables(net.client.host)
    wait_until(lambda: not switch(net)["at_boot"], "the disk to forget it")


def test_leaving_ends_the_kill_switch_also_for_the_next_boot(lab):
    net = FullTunnel(lab)
    net.choose("exit1", "--kill-switch")
    net.client.taut("leave")
    assert tables(net.client.host) == [] and not rules(net.client.host)
    wait_until(lambda: not switch(net)["at_boot"], "the disk to forget it")
    alone(net, "load")
    assert tables(net.client.host) == []


def test_fault_j4_a_forged_address_gets_nothing_but_sealed_packets(lab):
    net = FullTunnel(lab)
    net.choose("exit1", "--kill-switch")
    # The bystander has the address of the server: a name led there.
    host = net.client.host
    host.ip(f"route add {SERVER[0]}/32 via {net.bystander.ipv4} dev eth0")
    capture, talk = net.listen(), net.talk()
    net.client.kill()
    talk.wait()
    net.client.start()
    talk.wait()
    found = capture.finish()
    assert found["clear"] == 0, found


def test_the_kill_switch_works_without_a_daemon(lab):
    net = FullTunnel(lab)
    host = net.client.host
    assert not switch(net)["in_force"]
    net.choose("exit1", "--kill-switch")
    assert switch(net) == {**switch(net), "in_force": True, "at_boot": True, "daemon_runs": True}
    assert net.client.status()["kill_switch"]["in_force"]
    bound(host, "udp", "198.18.0.9", 53)
    assert switch(net)["dropped"] > 0, "also what the exit node's own rules would hold back"
    refused = alone(net, "remove", check=False)
    assert refused.returncode == 1 and "--kill-switch=false" in refused.stderr
    net.client.stop()
    shown = alone(net).stdout
    assert "in force" in shown and "taut kill-switch remove" in shown
    # The next boot: no table, no daemon, and no network yet.
    host.run("nft", "flush", "ruleset")
    assert alone(net, "load").returncode == 0 and switch(net)["in_force"]
    capture, talk = net.listen(), net.talk()
    talk.wait()
    assert capture.count() == 0 and switch(net)["dropped"] > 0
    # Without the daemon a pause is open in both families until the kernel closes it, or the user does.
    alone(net, "pause", "5m")
    assert 280 < switch(net)["paused_s"] <= 300
    talk.wait()
    assert capture.count() > 0
    alone(net, "resume")
    talk.wait()
    count = capture.count()
    talk.wait()
    assert capture.count() == count
    alone(net, "pause", "1s")
    wait_until(lambda: switch(net)["paused_s"] is None, "the kernel to close it")
    alone(net, "remove")
    assert tables(host) == [] and not switch(net)["at_boot"]


def test_a_pause_leads_beside_the_exit_node_and_back(lab):
    net = FullTunnel(lab)
    host = net.client.host
    net.choose("exit1", "--kill-switch")
    serve(net.rogue, 80)
    assert seen_as(host, net.rogue.ipv4, 80, timeout=0.5) is None
    alone(net, "pause", "10m")
    wait_until(lambda: seen_as(host, net.rogue.ipv4, 80, timeout=0.5) == host.ipv4, "the captive portal to answer")
    status = net.client.status()
    assert status["kill_switch"]["paused_s"] > 500 and status["exit"]["paused_s"] > 500
    assert status["exit"]["via"] is None and status["exit"]["seen_as"] == [] and status["exit"]["problem"] is None
    assert "in the clear" in net.client.taut("status").stdout
    assert "in the clear" in net.client.taut("why", "203.0.113.80", check=False).stderr
    alone(net, "resume")
    wait_until(lambda: rules(host), "the exit node's rules to be back")
    assert seen_as(host, net.rogue.ipv4, 80, timeout=0.5) is None
    net.wait_for_tunnel()


def test_fault_j8_the_kill_switch_is_back_after_a_flush(lab):
    net = FullTunnel(lab)
    net.choose("exit1", "--kill-switch")
    host = net.client.host
    # The twin and the marks belong to the daemon. One shell flushes and looks, before the daemon does.
    left = host.run("sh", "-c", "nft flush ruleset; nft list tables").stdout.splitlines()
    assert sorted(line.split()[-1] for line in left) == ["taut0_exit", "taut0_guard", "taut0_kill_twin"]
    wait_until(lambda: "taut0_kill_switch" in tables(host), "the kill switch to be back", timeout=2)
    assert "kill-switch-restored" in net.client.taut("log").stdout
    net.client.taut("set", "--exit-node", "none")
    assert "taut0_kill_switch" not in tables(host) and net.client.status()["kill_switch"]["waits"]
    assert "waits for an exit node" in alone(net).stdout


def own_resolv_conf(host, server):
    """Gives the programs of a host a file /etc/resolv.conf of their own, with this name server and little patience."""
    path = host.state / "resolv.conf"
    path.write_text(f"nameserver {server}\noptions timeout:1 attempts:1\n")
    mounts = host.start("unshare", "--mount", "--propagation", "private", "sh", "-ec", f"mount --bind {path} /etc/resolv.conf; echo ready; exec cat", name="mounts")
    mounts.wait_for_output("ready")
    host.prefix = ["nsenter", f"--mount=/proc/{mounts.pid}/ns/mnt"]


def test_fault_h7_the_coordinator_is_found_although_programs_reach_no_name_server(lab):
    net = FullTunnel(lab, "--no-dns")
    host, coord = net.client.host, net.coordinator.host
    names = coord.start(sys.executable, "-I", Path(public_names.__file__), coord.ipv4, "203.0.113.9", name="names")
    names.wait_for_output("ready")
    # The client joined by an address; from now on it knows the name alone.
    net.coordinator.stop()
    net.client.taut("down")
    net.client.stop()
    own_resolv_conf(host, coord.ipv4)
    identity = net.client.state / "identity.json"
    net.coordinator.address = "coord.example"
    net.coordinator.start()
    net.client = Node(host)
    shutil.rmtree(identity.parent)
    net.client.start(*net.options)
    net.client.up(net.coordinator.create_key()[1])
    net.choose("exit1", "--kill-switch")

    def connected(status):
        return status["coordinator"]["connected"]

    def asked_by_programs():
        return host.run(sys.executable, "-I", "-c", "import socket; print(socket.gethostbyname('other.example'))", check=False).returncode == 0

    assert not asked_by_programs()
    asked = names.output().count("coord.example")
    net.client.kill()
    net.client.start(*net.options)
    net.client.wait_for(connected, "the coordinator to be found by marked questions")
    assert names.output().count("coord.example") > asked
    # No name server at all: the addresses of the last connection.
    names.kill()
    net.client.kill()
    net.client.start(*net.options)
    net.client.wait_for(connected, "the coordinator to be found by its last address")
