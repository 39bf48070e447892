"""A member that sends invalid control messages in its session as fast as it can (fault B11). `make hostile` measures the cost in throughput."""

from lab.runs.hostile import HostileNetwork
from lab.traffic.flow import Probe, ping

# Duration in seconds: longer than the pause of the lanes of a peer between two changes.
ATTACK_S = 12


def _attacked(lab, kind, rate):
    """Returns datagrams from the victim to the bystander during the attack, and the state of the member at the victim after it."""
    field = HostileNetwork(lab)
    probe = Probe(field.victim.host, field.bystander.host, field.bystander.ipv4, interval=0.01, burst=4)
    program = field.program(kind, rate)
    program.write(f"{1000 * ATTACK_S}\n")
    program.wait_for_output('"sent"', timeout=60)
    seen = probe.finish()
    assert seen["sent"] > 1_000 and not seen["reordered"] and not seen["doubled"], seen
    assert seen["received"] >= 0.99 * seen["sent"], seen
    assert ping(field.victim.host, field.bystander.ipv4, count=3)["received"] == 3
    return field, field.victim.peer("attacker")


def test_fault_b11_a_member_that_changes_its_lanes_every_48_ms_changes_them_once_in_five_seconds(lab):
    field, member = _attacked(lab, "offers", 0)
    assert member["changes"]["ignored"] > 10 * ATTACK_S, member
    assert "changes of its lanes put off" in field.victim.taut("status").stdout


def test_fault_b11_a_member_that_says_anything_20000_times_a_second_is_heard_as_often_as_any_other(lab):
    field, member = _attacked(lab, "control", 20_000)
    dropped = field.victim.status()["drops"]
    # Limit on the processed authentic messages of one session: 200 probes and 50 other messages per second.
    assert dropped["in-control-rate"] > 10_000, dropped
    assert member["changes"]["held_bytes"] < 1 << 20, member
