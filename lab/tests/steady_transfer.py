"""A transfer between two nodes, slow enough that much can happen in the middle of it."""

from lab.traffic.flow import Transfer

# Bytes per second: its queues stay short, so that what is lost is a change's doing.
RATE = 1_000_000
# Bytes that have to arrive after a change.
SOME = 300_000


def flows(one, two):
    """A transfer from `one` to `two` that runs already."""
    transfer = Transfer(one.host, two.host, two.ipv4, rate=RATE)
    transfer.flows_on(SOME)
    return transfer
