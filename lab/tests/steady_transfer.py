"""A transfer between two nodes, slow enough for many changes during it."""

from lab.traffic.flow import Transfer

# Rate in bytes per second: low enough for short queues, so that losses are caused by a change.
RATE = 1_000_000
# Bytes that must arrive after a change.
SOME = 300_000


def flows(one, two):
    """Returns a running transfer from `one` to `two`."""
    transfer = Transfer(one.host, two.host, two.ipv4, rate=RATE)
    transfer.flows_on(SOME)
    return transfer
