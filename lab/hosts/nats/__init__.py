"""NATs of every kind as nftables routers, and a small internet with hosts behind them.

    internet = Internet(lab)
    server = internet.server("stun")
    one = internet.behind("port-restricted")
    two = internet.behind("symmetric")
    one.nat.forget()

`kinds` has the list, by name and in the terms of RFC 4787; docs/nats.md describes it for users. proof/sim/src/nat has the same list as machines in
virtual time. matrix.json says for every pair whether a direct path must be possible; the tests of both sides read it. `rules` turns a kind into
nftables text, `router` is the router with its faults (forget, rebind, change_address, black_hole, cut, restore), `internet` lays out the hosts,
`discovery` determines a kind from outside with UDP sockets, and punches holes.
"""

from .internet import Internet
from .kinds import KINDS, PLACES

__all__ = ["KINDS", "PLACES", "Internet"]
