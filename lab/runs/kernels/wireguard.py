"""`taut wg` beside the WireGuard of the running kernel: both roles, both IP versions, with and without a preshared key, through a real rekey, and with a peer that roams."""

from ...hosts.wait import wait_until
from ...nodes.wireguard import KERNEL, lacking
from .. import interop

COLUMNS = ("kernel", *interop.COLUMNS[:-1], "roaming", "verdict")
# Ports that the sides move to.
_PORTS = (51900, 51901)


class RoamingCase(interop.Case):
    """A pair whose sides move at the end: each side to another port, and the initiator to another address."""

    # An emulated processor carries some megabits a second, and starts few programs.
    size, look_s = 2_000_000, 10

    def run(self, lab, number, seconds):
        super().run(lab, number, seconds)
        self.say(f"{self.row['initiator']} → {self.row['responder']} over {self.row['outer']}: {self.row['verdict']}")

    def _rekey(self, one, two, seconds):
        self.say(f"{self.row['initiator']} → {self.row['responder']} over {self.row['outer']}: both transfers whole")
        super()._rekey(one, two, seconds)

    def _restart(self, one, two):
        super()._restart(one, two)
        self._roam(one, two)

    def _roam(self, one, two):
        """Moves each side, which then speaks first: the other side follows it (WireGuard's paper, section 2.1)."""
        moves = []
        for side, other, inner, port in ((one, two, "10.9.0.2", _PORTS[0]), (two, one, "10.9.0.1", _PORTS[1])):
            side.set("listen-port", port)
            self._follows(side, other, inner, lambda endpoint, port=port: endpoint.endswith(f":{port}"))
        moves.append("port")
        self._move_address(one)
        self._follows(one, two, "10.9.0.2", lambda endpoint: endpoint.rpartition(":")[0].strip("[]") == self._new)
        moves.append("address")
        self.row["roaming"] = ", ".join(moves)

    def _follows(self, side, other, inner, is_new):
        side.reaches(inner)
        wait_until(lambda: is_new(other.peer(side.public)["endpoint"]), f"{other.host.name} to follow {side.host.name}", details=other.details)

    def _move_address(self, side):
        """Replaces the address of the host of this side."""
        host = side.host
        old = host.ipv4 if self.family == 4 else host.ipv6
        self._new = old.rpartition(".")[0] + ".200" if self.family == 4 else old.rpartition(":")[0] + ":200"
        length, flags = (24, "") if self.family == 4 else (64, " nodad")
        # The old one first: with it the kernel removes further IPv4 addresses of its network.
        host.ip(f"address delete {old}/{length} dev eth0", f"address add {self._new}/{length} dev eth0{flags}")


def cases(families):
    """Returns both roles over these IP versions, as `make interop` has them for other implementations."""
    return [RoamingCase(case.initiator, case.responder, case.family, case.psk, case.keepalive) for case in interop.cases([KERNEL]) if case.family in families]


def run(lab, job, say):
    lack = lacking(KERNEL)
    if lack:
        return {"ok": False, "error": lack}
    chosen = cases(job["families"])
    for case in chosen:
        case.say = say
    say(f"{len(chosen)} pairs at once, {job['seconds']:.0f} s of traffic through the rekey")
    rows = interop.run(lab, chosen, job["seconds"])
    return {"ok": all(row["verdict"] == "ok" for row in rows), "rows": rows}
