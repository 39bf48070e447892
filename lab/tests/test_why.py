"""`taut why` and what `taut ping` and `taut status` say of a path, with real daemons: direct, relayed, and not there at all."""

import json

import pytest

from lab import needs
from lab.sight import Sight

BEHIND = pytest.mark.skipif(bool(needs.without("nft")), reason=needs.without("nft"))


def why(node, peer):
    return json.loads(node.taut("why", peer, "--json").stdout)


def test_a_direct_path_has_no_cause(mesh):
    one, two = mesh(nodes=2).nodes
    one.reach(two.name)
    told = why(one, two.name)
    assert (told["schema"], told["peer"], told["cause"], told["mend"]) == (1, two.name, None, [])
    assert told["path"]["kind"] == "direct" and told["path"]["since_s"] >= 0
    used = next(way for way in told["ways"] if way["state"] == "in-use")
    assert used["endpoint"] == told["path"]["endpoint"] and used["relay"] is None and used["answered"] > 0
    text = one.taut("why", two.name).stdout
    assert text.startswith(f"{two.name}: direct via ") and "WAY" in text and "MEANING" in text


def test_a_peer_that_is_off_is_told_as_that(mesh):
    one, two = mesh(nodes=2).nodes
    two.stop()
    one.wait_for(lambda status: one.peer(two.name, status)["online"] is False, "to hear that its peer is off")
    told = why(one, two.name)
    assert told["cause"] == "offline" and two.name in told["mend"][0]


def test_who_asks_for_a_stranger_is_told_so(mesh):
    (one,) = mesh(nodes=1).nodes
    answer = one.taut("why", "node9", check=False)
    assert answer.returncode == 1 and "node9" in answer.stderr and "taut status" in answer.stderr


@BEHIND
def test_fault_d5_two_symmetric_nats_stay_on_the_relay_and_say_why(behind):
    world = behind(["symmetric", "symmetric"])
    (one, two), (relay,) = world.nodes, world.relays
    said = one.ping(two.name, "--count", "3")
    assert said["received"] == 3 and {reply["path"] for reply in said["replies"]} == {"relayed"}
    assert {reply["relay"] for reply in said["replies"]} == {relay.host.name}
    one.wait_for(lambda _: why(one, two.name)["cause"] == "both-symmetric", "to know why the path is relayed")
    told = why(one, two.name)
    assert told["ours"]["kind"] == told["theirs"] == "symmetric"
    assert "ymmetric" in told["said"][1] and told["mend"]
    assert any(way["relay"] == relay.host.name and way["state"] == "in-use" for way in told["ways"])
    peer = one.peer(two.name)
    assert peer["traffic"]["relayed"]["sent"] > 0 and peer["traffic"]["direct"]["sent"] == 0
    text = one.taut("status").stdout
    assert f"relayed by {relay.host.name}" in text and "symmetric NAT" in text


@BEHIND
def test_two_cones_are_relayed_first_and_direct_soon(behind):
    one, two = behind(["port-restricted", "address-restricted"]).nodes
    with Sight(one) as sight:
        said = one.ping(two.name, "--until-direct", "-c", "60")
        assert said["replies"][-1]["path"] == "direct"
        told = sight.ask("why", peer=two.name)
        assert told["path"]["endpoint"].startswith(str(two.host.nat.external))
    peer = one.peer(two.name)
    assert peer["traffic"]["direct"]["sent"] > 0


@BEHIND
def test_a_direct_path_that_dies_is_told_of(behind):
    world = behind(["port-restricted", "port-restricted"])
    (one, two), (relay,) = world.nodes, world.relays
    one.reach(two.name)
    two.host.nat.black_hole()
    with Sight(one) as sight:
        one.ping(two.name, "--count", "3", "--timeout", "2s", check=False)
        sight.when(two.name, "relayed")
    told = why(one, two.name)
    assert told["path"]["relay"] == relay.host.name and told["cause"] and told["mend"]
    assert any(way["state"] in ("died", "trying", "judged", "silent") for way in told["ways"])
