"""NATs of every kind as nftables routers, and a small internet with hosts behind them.

    internet = Internet(lab)
    server = internet.server("stun")
    one = internet.behind("port-restricted")
    two = internet.behind("symmetric")
    one.nat.forget()

`kinds` has the list, by name and in the terms of RFC 4787; docs/nats.md is the same for users. proof/sim/src/nat has the same list as machines in
virtual time, and matrix.json, which both sides' tests read, says of every pair whether a direct path must be possible. `rules` turns a kind into
nftables text, `router` is the box with its verbs (forget, rebind, change_address, black_hole, cut, mend), `internet` lays out who is where,
`measure` finds a kind out from outside with UDP sockets, and punches.
"""

from .internet import Internet
from .kinds import KINDS, PLACES

__all__ = ["KINDS", "PLACES", "Internet"]
