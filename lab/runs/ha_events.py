"""The blows of `make ha-demo`: each breaks something suddenly, and restores it. While it does, a change is made through the balancer."""

import dataclasses
import threading
import time

from ..hosts.wait import PATIENCE_S, LabError
from .ha_site import MARK

# Pause before a replica that was killed is started again, in seconds: its nodes are elsewhere by then.
REPLICA_AWAY_S = 3.0
# The same of HAProxy, as a service manager would make it.
BALANCER_AWAY_S = 1.0
# Time within which HAProxy's check, once a second, notices that a replica is back, in seconds.
BALANCER_NOTICES_S = 2.0


@dataclasses.dataclass
class Blow:
    """What was done, and when (time.monotonic())."""

    key: str
    title: str
    # Member names are numbered by blow. This one is given during the blow.
    name: str
    # Channels of each replica before it and at its end.
    before: list
    after: list = dataclasses.field(default_factory=list)
    detail: str = ""
    began: float = 0.0
    ended: float = 0.0
    # Each disturbance.
    moments: list = dataclasses.field(default_factory=list)
    # When the new name was acknowledged, how often it failed before, and when the last node had it.
    acknowledged: float = 0.0
    refused: int = 0
    known: float = 0.0

    def disturb(self):
        self.moments.append(time.monotonic())


def calm(site, watch, blow):
    """Nothing happens: the others are compared with it."""
    blow.disturb()


def replica_killed(site, watch, blow):
    """Kills the replica with the most channels; starts it again when all nodes are connected."""
    victim = busiest(site, blow)
    blow.disturb()
    victim.kill()
    yield
    time.sleep(REPLICA_AWAY_S)
    watch.wait_until_whole(time.monotonic())
    site.start_replica(victim)


def busiest(site, blow):
    """Returns the replica with the most channels, and notes it."""
    number = max(range(len(site.replicas)), key=lambda number: blow.before[number])
    blow.detail = f"{site.replicas[number].host.name} with {blow.before[number]} channels"
    return site.replicas[number]


def replica_cut_off(site, watch, blow):
    """Takes the network from the host of the replica with the most channels: nothing tells its nodes. Restores it when all nodes are connected to others."""
    victim = busiest(site, blow)
    blow.disturb()
    site.internet.server_net.ip(f"link set {victim.host.name}.0 down")
    yield
    watch.wait_until_whole(time.monotonic())
    site.internet.server_net.ip(f"link set {victim.host.name}.0 up")
    # Until HAProxy takes it again, the next blow would meet two replicas.
    time.sleep(BALANCER_NOTICES_S)


def database_restarted(site, watch, blow):
    """Ends the connections of all coordinators to the database; the server crashes and starts again."""
    blow.disturb()
    ended = site.database.terminate_connections()
    yield
    blow.disturb()
    site.database.restart_at_once()
    blow.detail = f"{ended} connections ended, the server was away for {time.monotonic() - blow.moments[-1]:.1f} s"


def balancer_killed(site, watch, blow):
    """Kills HAProxy, which cuts all channels at once."""
    blow.disturb()
    site.balancer.kill()
    blow.detail = f"{sum(blow.before)} channels cut at once"
    yield
    time.sleep(BALANCER_AWAY_S)
    site.balancer.start()


def rolling_restart(site, watch, blow):
    """Stops and starts one replica after the other, as at an upgrade."""
    for number, replica in enumerate(site.replicas):
        blow.disturb()
        replica.stop()
        if number == 0:
            yield
        site.start_replica(replica)
        watch.wait_until_whole(time.monotonic())
        # The balancer has to notice, or the next stop would leave one replica for all.
        time.sleep(BALANCER_NOTICES_S)
    blow.detail = "SIGTERM and start of each, one after the other"


BLOWS = (
    ("calm", "nothing", calm),
    ("replica-killed", "a replica is killed (SIGKILL)", replica_killed),
    ("replica-cut-off", "the host of a replica loses its network", replica_cut_off),
    ("database-restarted", "the database's connections end, it crashes and starts again", database_restarted),
    ("balancer-killed", "the balancer is killed (SIGKILL), back after a second", balancer_killed),
    ("rolling-restart", "all replicas are restarted, one after the other", rolling_restart),
)


def strike(site, watch, number, key, title, work):
    """Does one blow with a change in it, waits until everything is whole, and returns its record."""
    blow = Blow(key, title, f"{MARK}-{number}", watch.replicas.channels(), began=time.monotonic())
    steps = work(site, watch, blow) or iter(())
    next(steps, None)
    change = Change(site, watch.mark, blow)
    for _ in steps:
        pass
    change.finish()
    # A look of the observers after the last step.
    watch.wait_until_whole(time.monotonic())
    blow.known = watch.wait_for_name(blow.name)
    time.sleep(site.shape.calm_s)
    blow.ended, blow.after = time.monotonic(), watch.replicas.channels()
    return blow


class Change:
    """Renames the member `mark` in the background, from now on until it is acknowledged."""

    def __init__(self, site, number, blow):
        self._error = None
        self._thread = threading.Thread(target=self._make, args=(site, number, blow), daemon=True)
        self._thread.start()

    def finish(self):
        self._thread.join()
        if self._error:
            raise self._error

    def _make(self, site, number, blow):
        try:
            blow.acknowledged, blow.refused = site.rename_mark(number, blow.name, time.monotonic() + PATIENCE_S)
        except LabError as error:
            self._error = error
