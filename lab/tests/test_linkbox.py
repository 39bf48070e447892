"""linkbox between real hosts: it does what was configured, every frame is a wire packet, and other tools measure the same."""

import itertools
import json
import math
import re
import statistics
import time

import pytest

from lab.hosts import congestion, needs, profiles
from lab.hosts.profiles import Profile
from lab.hosts.site import lay_out
from lab.tests.quiet_machine import in_calm
from lab.traffic.flow import Transfer

_LACK = needs.missing_reason("ethtool", "iperf3", "nft", "ping", "tc")
pytestmark = pytest.mark.skipif(bool(_LACK), reason=_LACK)

# Echo requests: enough for a share of one percent to come out within a tenth of itself (four standard errors).
_PINGS = 4_000
# Bytes of payload in an Ethernet packet of 1,500 bytes with TCP timestamps.
_MSS = 1448
# Duration in seconds: enough for hundreds of losses.
_THEORY_S = 12


def _profile(right, left=None, **more):
    return Profile("test", "test", "test", {"right": right, "left": right if left is None else left}, **more)


@pytest.fixture
def site(lab):
    def make(right, left=None, **options):
        return lay_out(lab, _profile(right, left), **options)

    return make


def _ping(site, count, interval=0.002):
    left, right = site.hosts
    words = ("ping", "-q", "-c", count, "-i", interval, "-W", 1, right.ipv4)
    return left.run(*words, check=False, timeout=180 + count * interval * 2).stdout


def _stream(site, *options, seconds=3):
    left, right = site.hosts
    server = right.start("iperf3", "-s", "-1", "--forceflush")
    server.wait_for_output("Server listening")
    done = left.run("iperf3", "-c", right.ipv4, "-J", "-t", seconds, *options, timeout=seconds + 30)
    server.wait()
    return json.loads(done.stdout)["end"]


def test_a_constant_delay_is_what_each_way_takes(site):
    place = site("base 0.3ms delay 5ms")
    fastest = float(re.search(r"= ([\d.]+)/", _ping(place, 200))[1])
    for report in place.link_reports():
        assert _drawn_ms(report) == pytest.approx(5.3, rel=0.01)
        assert report["to_left"] is None
        assert report["to_right"]["counts"]["lost"] == 0
    # Of 200 echo requests, some run on an idle machine.
    assert 10.6 <= fastest < 11.6


def _drawn_ms(report):
    """Returns the configured mean delay of a frame: linkbox reports its own lateness within the total delay and separately."""
    way = report["to_right"]
    return (way["realised"]["delay_us"]["mean"] - way["lateness_us"]["mean"]) / 1e3


def test_asked_loss_and_reordering_come_out(site):
    place = site("loss 5% delay 3ms reorder 10% 50%", "")
    _ping(place, _PINGS)
    one, two = place.link_reports()
    realised = one["to_right"]["realised"]
    assert realised["loss"] == pytest.approx(0.05, abs=0.02)
    assert realised["reorder"] == pytest.approx(0.10, abs=0.05)
    assert two["to_right"]["counts"]["lost"] == 0
    # The same seed draws the same losses.
    assert one["to_right"]["asked"]["loss"] == [0.05, 0.0]


def test_a_tcp_stream_is_wire_packets_only(site):
    place = site("base 0.3ms")
    end = _stream(place)
    assert end["sum_received"]["bits_per_second"] > 1e8
    for report in place.link_reports():
        counts = report["to_right"]["counts"]
        assert (counts["oversize"], counts["unfinished"], counts["missed"], counts["refused"]) == (0, 0, 0, 0), counts


def test_superpackets_stay_together_where_that_is_wanted(site):
    place = site("base 0.3ms", placement="superpackets")
    end = _stream(place)
    one, _ = place.link_reports()
    counts = one["to_right"]["counts"]
    assert counts["oversize"] == 0 and one["superpackets"]
    # Far fewer frames than packets of 1,448 bytes.
    assert counts["received"] < end["sum_sent"]["bytes"] / 1448 / 3


def test_a_report_covers_the_time_since_the_previous_one(site):
    place = site("base 0.3ms loss 10%", "")
    _ping(place, 300)
    first, _ = place.link_reports()
    _ping(place, 100)
    second, _ = place.link_reports()
    third, _ = place.link_reports()
    # Hosts also send neighbour requests.
    for report, wanted in ((first, 300), (second, 100), (third, 0)):
        counts = report["to_right"]["counts"]
        assert wanted <= counts["received"] <= wanted + 10, counts
        assert counts["lost"] + counts["sent"] == counts["received"] and report["to_right"]["under_way"] == 0
    assert third["seconds"] < first["seconds"] and third["to_right"]["realised"]["loss"] in (None, 0.0)


@pytest.mark.alone
def test_jitter_is_spread_as_it_was_asked(site):
    """One direction has 4 ± 3 ms, the other none: a ping shows the delays themselves."""
    place = site("delay 4ms jitter 3ms", "")

    def spread():
        times = _times(place, 1_500)
        (report, _), quarters = place.link_reports(), statistics.quantiles(times, n=4)
        delay, late = report["to_right"]["realised"]["delay_us"], report["to_right"]["lateness_us"]
        assert _drawn_ms(report) == pytest.approx(4, rel=0.05)
        assert min(times) >= 1.0 and quarters[0] >= 2.1
        # Uniform from 1 to 7 ms, with a quarter between two quartiles. A busy machine adds its own time to all of them and removes none.
        assert [late - soon for soon, late in itertools.pairwise(quarters)] == pytest.approx([1.5, 1.5], abs=0.4)
        assert 6_900 <= delay["p99"] <= 6_940 * 17 / 16 + late["p99"] + 500

    in_calm(spread)


@pytest.mark.alone
def test_delays_below_nothing_are_cut(site):
    """As in `medium`: of 4 ± 7 ms, three fourteenths take no time."""
    place = site("delay 4ms jitter 7ms", "")

    def spread():
        times = _times(place, 1_000)
        assert _drawn_ms(place.link_reports()[0]) == pytest.approx(11 / 14 * 5.5, rel=0.06)
        assert sum(took < 0.5 for took in times) / len(times) == pytest.approx(3 / 14 + 0.5 / 14, abs=0.06)
        assert statistics.mean(times) == pytest.approx(11 / 14 * 5.5, abs=0.6)

    in_calm(spread)


def _times(place, count):
    """Returns round trips in ms of `count` overlapping echo requests."""
    left, right = place.hosts
    # Resolves the neighbours first.
    left.run("ping", "-c1", right.ipv4)
    answer = left.run("ping", "-c", count, "-i", 0.004, right.ipv4, timeout=60).stdout
    return [float(found) for found in re.findall(r"time=([\d.]+) ms", answer)]


@pytest.mark.alone
@pytest.mark.parametrize("limiter", ["linkbox", "tbf"])
def test_a_rate_is_the_one_that_tbf_gives(site, limiter):
    """Both count a frame with its Ethernet header, so that 1,448 bytes in 1,514 arrive."""
    place = site("rate 50mbit queue 20ms" if limiter == "linkbox" else "", "")
    if limiter == "tbf":
        place.hosts[0].run("tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", "50mbit", "burst", 3_028, "latency", "20ms")

    def rate():
        arrived = _stream(place, "-O", 1)["sum_received"]["bits_per_second"]
        assert arrived == pytest.approx(50e6 * 1448 / 1514, rel=0.03)

    in_calm(rate)


def test_loss_is_that_of_other_tools(site):
    """nft loses half as much as linkbox; both draw per packet."""
    place = site("loss 10%", "")
    ours = _lost(place)
    right = place.hosts[1]
    right.run("nft", "-f", "-", text="table ip lose { chain input { type filter hook input priority 0; numgen random mod 100 < 10 drop; }; }")
    both = _lost(place)
    assert ours == pytest.approx(0.10, abs=0.025)
    assert both == pytest.approx(0.19, abs=0.035)


def _lost(place):
    found = re.search(r"(\d+) packets transmitted, (\d+) received", _ping(place, _PINGS))
    return 1 - int(found[2]) / int(found[1])


@pytest.mark.alone
@pytest.mark.parametrize("name", ["low-loss", "medium-loss", "high-loss"])
def test_one_stream_is_where_theory_wants_it(lab, name):
    """Constant delay, only independent losses, Reno: MSS / RTT × 1.22 / √p (Mathis and others, 1997)."""
    profile = profiles.load()[name]
    place = lay_out(lab, profile, congestion="reno")
    theory = _MSS * 8 / (profile.round_trip_ms / 1e3) * 1.22 / math.sqrt(profile.loss)

    def rate():
        end = _stream(place, "-O", 2, seconds=_THEORY_S)
        doubts = [doubt for report in place.link_reports() for doubt in report["doubts"]]
        assert place.congestion == "reno" and not any("offload" in doubt for doubt in doubts)
        assert end["sum_received"]["bits_per_second"] == pytest.approx(theory, rel=0.25), f"{theory / 1e6:.1f} Mbit/s by theory"

    in_calm(rate)


def _echo(one, other, length, may_be_cut=False):
    """Sends one echo request in an IPv4 packet of `length` bytes; returns True if it was answered. No host may report that it was too long."""
    done = one.run("ping", "-c1", "-W1", "-s", length - 28, "-M", "dont" if may_be_cut else "do", other.ipv4, check=False)
    assert "too long" not in done.stdout.lower() and "frag needed" not in done.stdout.lower(), done.stdout
    return done.returncode == 0


def test_the_path_that_drops_large_packets_says_nothing(lab):
    place = lay_out(lab, profiles.load()["mtu-1280"])
    left, right = place.hosts
    for one, other in ((left, right), (right, left)):
        assert _echo(one, other, 1280)
        assert not _echo(one, other, 1281)
        # Every IPv4 router behaves in this way.
        assert _echo(one, other, 1500, may_be_cut=True)


@pytest.mark.parametrize("reverse", [False, True])
def test_superpackets_get_through_a_small_path_no_more_than_packets_do(lab, reverse):
    place = lay_out(lab, profiles.load()["mtu-1280"])
    one, other = reversed(place.hosts) if reverse else place.hosts
    stuck = Transfer(one, other, other.ipv4)
    time.sleep(2)
    assert stuck.received == 0
    # A host that knows the path MTU gets through.
    one.ip(f"route add {other.ipv4}/32 via {one.lab.nodes['gate'].addresses[reverse]} mtu 1280")
    assert Transfer(one, other, other.ipv4, size=1_000_000).finish()["equal"]


def test_three_hosts_meet_one_emulator_per_way(lab):
    place = lay_out(lab, _profile("delay 2ms"), count=3)
    one, two, three = place.hosts
    for source, target in ((one, two), (two, three), (three, one)):
        source.run("ping", "-c3", "-i0.05", target.ipv4)
    assert len(place.link_reports()) == 3


def test_the_congestion_control_is_the_named_one(lab):
    with congestion.allowed("cubic") as there:
        place = lay_out(lab, _profile(""), congestion="cubic")
        assert place.congestion == "cubic" or not there
