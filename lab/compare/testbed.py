"""Where visits take place: hosts in namespaces, on a link as its profile tells, and what the link says of itself."""

import contextlib

from ..hosts.net import Lab
from ..hosts.wait import LabError
from ..measure import machine
from ..traffic.flow import answers
from .rows import told

# How long (seconds) hosts may take to meet: enough for links that lose much, and for neighbours that are asked for once a second.
MEETING_S = 20

# What the labelled, tuned series sets in every host: TCP that takes reordering for what it is, and buffers for long fast paths.
TUNED = {
    "net/ipv4/tcp_reordering": "10",
    "net/ipv4/tcp_recovery": "0",
    "net/ipv4/tcp_early_retrans": "0",
    "net/ipv4/tcp_rmem": "4096 131072 33554432",
    "net/ipv4/tcp_wmem": "4096 131072 33554432",
}


class Rig:
    """Where visits take place: hosts in namespaces, on a link as its profile tells."""

    def __init__(self, logs, congestion):
        self.logs, self.congestion = logs, congestion

    @contextlib.contextmanager
    def hosts(self, visit, profile, seed):
        """(lab, site) of a visit; all of it is gone afterwards, but logs where something failed."""
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
        """A first packet from the first host to every other, answered: neighbours are known then, and a lost question for one spoils no figure."""
        for address in running.addresses[1:]:
            if not answers(site.hosts[0], address, MEETING_S):
                raise LabError(f"it came up, but nothing from {site.hosts[0].name} to {address} was answered in {MEETING_S} s")

    def offloads(self, site):
        """The switches of the hosts' interfaces."""
        return machine.offloads(site.hosts[0])


def reports(site):
    """What the link says of what went over it since it was asked last."""
    try:
        return list(site.link_reports())
    except Exception as error:
        return [{"doubts": [f"the link said nothing of itself: {told(error)}"]}]
