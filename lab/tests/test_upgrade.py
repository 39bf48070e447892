"""From the relay to the direct path under bidirectional traffic: nothing is lost or delayed."""

import time

from lab.nodes.world import World
from lab.traffic.flow import PingStream


def test_packets_and_their_answers_go_on_while_both_paths_change(lab):
    one, two = World(lab, ["port-restricted", "address-restricted"]).nodes
    with PingStream(one.host, two.ipv4) as beat:
        time.sleep(3)
        beats = beat.finish()
    # The first packets wait for the handshake, the last ones may be in transit.
    missing = [moment for moment in beats["unanswered"] if moment < beats["ended"] - 0.5]
    assert beats["sent"] > 200 and not missing, f"{len(missing)} of {beats['sent']} were lost"
