"""Several networks on one host, each with a daemon, files and a device of its own (`--network NAME`)."""

import json

from lab.hosts.programs import binary
from lab.hosts.wait import wait_until
from lab.nodes.taut import Coordinator
from lab.tests.machine import Machine
from lab.traffic.flow import ping

HOME, WORK = "10.81.0.0/16", "10.82.0.0/16"


def status(machine, network=""):
    return json.loads(machine.run(f"taut status --json {network} || true"))


def devices(machine):
    return {link["ifname"] for link in json.loads(machine.host.run("ip", "-json", "link").stdout)} - {"lo"}


def test_two_networks_on_one_host_have_their_own_files_devices_and_ends(lab):
    switch = lab.switch("lan")
    coordinators = [Coordinator(lab.host(name, switch)).start("--network", name, "--ipv4-prefix", prefix) for name, prefix in (("home", HOME), ("office", WORK))]
    home, office = coordinators
    machines = [Machine(lab.host(name, switch), "127.0.0.1 localhost") for name in ("desk", "nas")]
    before = devices(machines[0])
    for machine in machines:
        machine.run(f"install {binary('taut')} /usr/local/bin/")
        machine.run(f"taut up --join {home.join_token}\ntaut --network work up --join {office.join_token}")
    desk, nas = machines
    assert {one["interface"] for one in networks(desk)} == {"taut0", "taut-work"}
    for flag in ("", "--network work"):
        wait_until(lambda flag=flag: status(desk, flag)["peers"], "the other host", details=lambda flag=flag: desk.run(f"taut status {flag} || true"))
        [peer] = status(desk, flag)["peers"]
        assert ping(desk.host, peer["addresses"][0], count=2)["received"] == 2
    assert desk.run("test -e /var/lib/taut-work/identity.json -a -e /run/taut-work/taut.sock && echo yes").strip() == "yes"
    # One network ends, the other one stays; what is kept for one is not the other's.
    desk.run("taut set --network work --log-level debug")
    assert desk.run("taut set | grep 'log-level *info *default'")
    desk.run("taut down --network=work")
    assert devices(desk) == before | {"taut0"} and status(desk)["state"] == "running"
    assert [(one["name"], one["state"]) for one in networks(desk)] == [(None, "running"), ("work", None)]
    assert "`taut --network work up`" in desk.run("! taut status --network work"), "a hint is about the network that was asked for"
    desk.run("taut up --network work")
    assert devices(desk) == before | {"taut0", "taut-work"}
    assert desk.run("taut set --network work | grep 'log-level *debug *set'")
    text = desk.run("taut networks")
    assert "office" in text and "taut-work" in text and "home" in text, text
    # A network whose prefix this host has already is refused with words.
    third = Coordinator(lab.host("third", switch)).start("--network", "third", "--ipv4-prefix", WORK)
    refused = desk.run(f"! taut up --network third --join {third.join_token} --timeout 20s")
    assert "office" in refused or "taut-work" in refused or "10.82" in refused, refused
    desk.run("taut leave && taut leave --network work")
    assert devices(desk) == before
    assert not [name for name in desk.processes() if name.startswith("taut")]


def networks(machine):
    return json.loads(machine.run("taut networks --json"))["networks"]
