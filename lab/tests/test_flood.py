"""Floods of handshakes, short and untimed; `make flood` measures them."""

import shutil

import pytest

from lab.runs.flood_network import VICTIM, Network, Plain
from lab.traffic.flow import Listener, Probe, ping

pytestmark = pytest.mark.skipif(not shutil.which("wg"), reason="needs the program wg: apt-get install wireguard-tools")

# Duration in seconds: longer than the pause of a peer that was asked for a cookie. It shows the cookie with its next attempt, or on a busy host with
# the one after that.
SECONDS = 14
INITIATION_TYPE, COOKIE_TYPE = 1, 3
# Bytes of a cookie reply and of a response.
COOKIE, RESPONSE = 64, 92
# New peers per test. Without the limits per source a flood still admits some of them by chance, but never this many.
NEWCOMERS = 12
# Packets that are counted besides answers: IPv6 neighbour discovery.
STRAY = {4: 0, 6: 2000}


class Honest:
    """Honest peers during a flood: one has a session, the other connects again."""

    def __init__(self, field):
        self.field = field
        self.session = field.victim.peer(field.flow.public)["handshake"]
        self.endpoints = self._endpoints()
        self.probe = Probe(field.flow.host, field.victim.host, VICTIM)

    def connects(self):
        """A peer without a session connects from an unknown port."""
        assert self.field.connect(1)[0] is not None, "a new peer did not get in"

    def went_on(self):
        seen = self.probe.finish()
        assert seen["sent"] > 20 and seen["received"] >= 0.95 * seen["sent"], seen
        assert self.field.victim.peer(self.field.flow.public)["handshake"] == self.session, "the session was replaced"
        assert self._endpoints() == self.endpoints, "an endpoint moved"
        assert ping(self.field.client.host, VICTIM, count=3)["received"] == 3

    def _endpoints(self):
        return [self.field.victim.peer(peer.public)["endpoint"].rpartition(":")[0] for peer in (self.field.flow, self.field.client)]


def strike(field, kind, rate):
    """Makes a flood in which a new peer connects; returns the report of the generator."""
    honest, program = Honest(field), field.program(kind, rate)
    heard, lines = field.heard(), len(program.output().splitlines())
    program.write(f"{1000 * SECONDS}\n")
    honest.connects()
    assert len(program.output().splitlines()) == lines, "the flood was over before the peer was in"
    seen = field.ends(program, lines, heard)
    assert seen["sent"] > rate * SECONDS / 2, seen
    honest.went_on()
    return seen


def test_fault_b1_a_flood_without_mac1_gets_no_answer(lab):
    seen = strike(Plain(lab), "bad-mac1", 20_000)
    assert seen["answers"] == 0, seen


# Fault B3: over IPv6 as well.
@pytest.mark.parametrize("family", [4, 6])
def test_fault_b2_b3_a_flood_from_invented_sources_gets_cookies_at_most(lab, family):
    seen = strike(Plain(lab, family), "spoofed", 5_000)
    # No sender has a key that the victim knows: most get a cookie, the others silence.
    assert seen["sent"] / 2 < seen["answers"] < seen["sent"], seen
    assert seen["back"] <= seen["sent"] * COOKIE + STRAY[family], seen


def test_fault_b4_only_the_flooding_source_is_asked_for_a_cookie(lab):
    field = Network(lab)
    wires = [Listener(field.switch, host) for host in (field.client.host, field.flow_host)]
    program, before, (_, octets) = field.program("one-source", 20_000), field.handshakes(), field.heard()
    program.write(f"{1000 * 3600}\n")
    # Each with a new key and from a new port.
    times = field.connect(NEWCOMERS)
    assert program.alive
    program.kill()
    assert None not in times, f"a new peer did not get in: {times}"
    assert field.stays()
    rows = [row for wire in wires for row in wire.finish()["udp"]]
    to_others = [row for row in rows if row["type"] == COOKIE_TYPE]
    assert not to_others, f"somebody else was asked, too: {to_others}"
    # The capture saw the flood and the new peers.
    assert sum(row["frames"] for row in rows if row["type"] == INITIATION_TYPE) >= NEWCOMERS
    after = field.handshakes()
    assert after["cookies"] - before["cookies"] > 20_000, after
    assert field.heard()[1] - octets > 20_000 * COOKIE, "these cookies came to the attacker"
    assert after["answered"] - before["answered"] == NEWCOMERS, after


@pytest.mark.alone
def test_fault_b12_a_flood_from_thousands_of_ports_that_show_cookies_lets_other_addresses_in(lab):
    field = Network(lab)
    program, before = field.program("ports", 20_000), field.handshakes()
    program.write(f"{1000 * 3600}\n")
    # Forged senders use up the limit for new senders, so each new peer needs a cookie too.
    times = field.connect(NEWCOMERS)
    assert program.alive
    program.kill()
    assert None not in times, f"a new peer did not get in: {times}"
    assert field.stays()
    after = field.handshakes()
    assert after["cookies"] - before["cookies"] > 20_000, after
    assert after["answered"] - before["answered"] == NEWCOMERS, after


def test_fault_b6_a_replayed_initiation_is_answered_a_few_times_and_then_never(lab):
    field = Plain(lab)
    # Answers travel one by one, so that the kernel counts each.
    field.victim.host.ip("link set eth0 gso_max_segs 1")
    program = field.program("replay", 1_000)
    # The first replay is as valid as the peer's own message. A packet of the peer restores the endpoint, and no later replay
    # changes it.
    first = field.flood(program, SECONDS)
    field.client.reaches(VICTIM)
    honest = Honest(field)
    then = field.flood(program, SECONDS)
    honest.went_on()
    assert 1 <= responses(first) <= 4, first
    assert responses(then) == 0, then
    honest.connects()


def responses(seen):
    """Returns the number of responses among the answers; the others are cookies."""
    return (seen["back"] - COOKIE * seen["answers"]) / (RESPONSE - COOKIE)
