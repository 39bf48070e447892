"""The hosts of a visit, in namespaces, on the link of its profile; and the reports of the link."""

import contextlib

from ..hosts.net import Lab
from ..hosts.wait import LabError
from ..measure import machine
from ..traffic.flow import answers
from .rows import error_text

# Limit on the wait for the first answer between hosts, in seconds: enough for lossy links, and for neighbour discovery once per second.
MEETING_S = 20

# Settings of every host in the tuned series: TCP that tolerates reordering, and buffers for long fast paths.
TUNED = {
    "net/ipv4/tcp_reordering": "10",
    "net/ipv4/tcp_recovery": "0",
    "net/ipv4/tcp_early_retrans": "0",
    "net/ipv4/tcp_rmem": "4096 131072 33554432",
    "net/ipv4/tcp_wmem": "4096 131072 33554432",
}


class VisitHosts:
    """The hosts of a visit, in namespaces, on the link of its profile."""

    def __init__(self, logs, congestion):
        self.logs, self.congestion = logs, congestion

    @contextlib.contextmanager
    def hosts(self, visit, profile, seed):
        """Yields (lab, site) of a visit. Everything is removed afterwards, except logs after a failure."""
        from ..hosts.site import lay_out

        tuned, mtu = "-tuned" if visit.tuned else "", f"-{visit.mtu}" if visit.mtu else ""
        logs = self.logs / f"{visit.round}-{visit.profile}-{visit.placement}-{visit.system}{tuned}{mtu}-{visit.works[0]}"
        with Lab(logs) as lab:
            site = lay_out(lab, profile, count=visit.hosts, seed=seed, placement=visit.placement, congestion=self.congestion)
            if visit.tuned:
                for host in site.hosts:
                    host.run("sh", "-ec", "\n".join(f"echo '{value}' > /proc/sys/{key}" for key, value in TUNED.items()))
            yield lab, site

    def meet(self, site, running):
        """Waits for an answer to a first packet from the first host to every other: neighbours are known then, and a lost neighbour request affects
        no figure."""
        for address in running.addresses[1:]:
            if not answers(site.hosts[0], address, MEETING_S):
                raise LabError(f"it came up, but nothing from {site.hosts[0].name} to {address} was answered in {MEETING_S} s")

    def offloads(self, site):
        """Returns the offloads of the interfaces of the hosts."""
        return machine.offloads(site.hosts[0])


def reports(site):
    """Returns the reports of the link since the previous call."""
    try:
        return list(site.link_reports())
    except Exception as error:
        return [{"doubts": [f"the link said nothing of itself: {error_text(error)}"]}]
