"""Kinds of work: each over the bare link, some over a tunnel, and the message of each failure. Speed is not checked."""

import collections
import itertools
import json
import re
import shutil
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from lab.hosts import profiles
from lab.hosts.wait import LabError
from lab.measure import echo
from lab.nodes.systems import ALL as SYSTEMS
from lab.nodes.systems import Running
from lab.traffic.work import (
    ALL, Cost, Download, Flap, Memory, Move, Payload, Ping, PingLoaded, Quic, Reboot, Ring, Tcp, Udp, Video, Work, estimate, largest_packet, stream, network_changes
)  # fmt: skip
from lab.traffic.work.base import program
from lab.traffic.work.download import FULL, QUICK, download_figures, wanted
from lab.traffic.work.echo import echo_figures, echoes
from lab.traffic.work.iperf import report
from lab.traffic.work.quic import bulk_figures, first_byte_figures
from lab.traffic.work.tcp import check_congestion, together
from lab.traffic.work.video import IN_TIME_MS, video_figures

BY_NAME = {work.name: work for work in ALL}
UNITS = ("mbps", "ms", "percent", "s", "gb", "mb", "kib", "bytes")
# Figures that are counts have no unit.
COUNTED = (
    "retransmits", "congestion_control", "congestion_events", "echoes", "tries", "files", "connections", "packets",
    "sizes_tried", "datagrams_per_call", "sent_datagrams", "recovered_datagrams", "given_up_datagrams",
)  # fmt: skip


@dataclass
class Place:
    """The part of a site that works need: hosts on one switch, without an emulator."""

    hosts: list
    helper: object
    profile: object
    placement: str
    congestion: str

    def link_reports(self):
        return []


def lay_out(lab, count=2):
    switch = lab.switch("net")
    helper, *hosts = (lab.host(name, switch) for name in ("helper", "left", "right", "third")[: count + 1])
    used = hosts[0].run("cat", "/proc/sys/net/ipv4/tcp_congestion_control").stdout.strip()
    return Place(hosts, helper, SimpleNamespace(mtu=1500, emulated=False, round_trip_ms=0.0), "packets", used)


def started(name, place, mtu=1420):
    """Starts a system of this name; skips the test if it is unavailable."""
    system = next(system for system in SYSTEMS if system.name == name)
    if lack := system.lacking():
        pytest.skip(f"{name}: {lack}")
    return system.start(place.hosts, place.helper, mtu)


def bare(place):
    return started("bare", place)


@pytest.fixture
def brief(monkeypatch):
    """Shortens all works to about a second, which is enough because speed is not checked."""
    for kind, length in ((Tcp, "counted"), (PingLoaded, "counted"), (Udp, "seconds"), (Video, "counted"), (Memory, "seconds")):
        monkeypatch.setattr(kind, length, lambda self, quick: 1)


def done(work, place, running):
    """Returns the figures of a quick run; skips works that are unavailable here."""
    if lack := work.lacking():
        pytest.skip(f"{work.name}: {lack}")
    return work.run(place, running, quick=True)


# --- each over a link ---


@pytest.mark.parametrize("work", ALL, ids=lambda work: work.name)
def test_every_work_is_done_over_the_bare_link(lab, brief, work):
    place = lay_out(lab, work.hosts)
    figures = done(work, place, bare(place))
    assert isinstance(figures[work.main], (int, float))
    assert json.loads(json.dumps(figures)) == figures, "results are written as JSON"
    for name, value in figures.items():
        assert name in COUNTED or name.split("_")[-1] in UNITS, f"{name} has no unit"
        assert isinstance(value, (int, float, str, list)), f"{name} is not flat: {value!r}"
    assert not [process.name for host in place.hosts for process in host.processes if process.alive], "nothing is left running"


OVER_A_TUNNEL = ("ping", "tcp-both", "udp-100", "quic", "quic-first-byte", "download", "video", "flap", "move", "memory")


@pytest.mark.parametrize("name", OVER_A_TUNNEL)
def test_work_is_done_over_a_tunnel(lab, brief, name):
    place = lay_out(lab)
    running = started("taut-wg", place)
    figures = done(BY_NAME[name], place, running)
    assert figures[BY_NAME[name].main] >= 0


def test_a_tunnel_is_connected_again_after_a_boot(lab):
    place = lay_out(lab)
    running = started("taut-wg", place)
    before = running.processes[1][0]
    figures = done(Reboot(), place, running)
    assert 0 < figures["again_s"] < 60 and not before.alive and running.processes[1][0].alive


def test_a_ring_goes_all_the_way_round(lab):
    place = lay_out(lab, 3)
    figures = done(Ring(), place, bare(place))
    assert len(figures["ways_mbps"]) == 3 and all(figures["ways_mbps"])


def test_the_payload_is_what_a_tunnel_says_and_a_link_keeps(lab):
    place = lay_out(lab)
    assert done(Payload(), place, started("taut-wg", place, 1380))["payload_bytes"] == 1380


@pytest.mark.skipif(not shutil.which("nft"), reason="needs the program nft: apt-get install nftables")
def test_the_payload_is_what_arrives_not_what_the_interface_says(lab):
    place = lay_out(lab)
    place.hosts[1].run("nft", "-f", "-", text="table inet t { chain c { type filter hook input priority 0; ip length > 1277 drop; }; }")
    figures = done(Payload(), place, bare(place))
    assert (figures["payload_bytes"], figures["interface_mtu_bytes"]) == (1277, 1500)
    place.hosts[1].run("nft", "-f", "-", text="table inet t { chain c { ip length > 500 drop; }; }")
    with pytest.raises(LabError, match="not even packets of 576 bytes"):
        Payload().run(place, bare(place), quick=True)


def test_downloaded_files_are_many_and_the_connection_is_one(lab):
    place = lay_out(lab)
    figures = done(Download(), place, bare(place))
    assert (figures["files"], figures["connections"]) == (202, 1) and figures["bytes"] == sum(QUICK.sizes())


# --- messages of failures ---


def test_an_unreachable_host_is_a_failure_with_a_reason(lab, monkeypatch):
    place = lay_out(lab)
    nobody = Running(addresses=[place.hosts[0].ipv4, "10.77.1.200"], interface="eth0", processes=[[], []])
    monkeypatch.setattr("lab.traffic.work.base.MEETING_S", 0.2)
    with pytest.raises(LabError, match="left has no answer from 10.77.1.200"):
        Ping().run(place, nobody, quick=True)
    with pytest.raises(LabError, match="no echo request was answered"):
        echoes(place.hosts[0], "10.77.1.200", 0.1)
    if not BY_NAME["tcp-1"].lacking():
        with pytest.raises(LabError, match="iperf3: .*unable to connect"):
            report(*place.hosts, "10.77.1.200", 1)
    assert not [process.name for host in place.hosts for process in host.processes if process.alive]


def test_a_system_that_ends_meanwhile_is_named_with_its_last_words(lab):
    place = lay_out(lab)
    running = bare(place)
    process = place.hosts[1].start("sh", "-c", "echo no more legs; exit 3", name="broken")
    process.wait()
    running.processes = [[], [process]]
    with pytest.raises(LabError, match=r"^ping, idle was done, but broken of the system has ended\n(.|\n)*no more legs"):
        Ping().run(place, running, quick=True)


def test_work_for_more_hosts_than_exist_is_refused(lab):
    place = lay_out(lab)
    with pytest.raises(LabError, match="needs 3 hosts; there are 2"):
        Ring().run(place, bare(place), quick=True)


def test_errors_of_programs_and_files_become_lab_errors(monkeypatch):
    monkeypatch.setattr("lab.traffic.work.base.meet", lambda hosts, running: None)

    class Broken(Work):
        name, title = "broken", "broken work"

        def figures(self, site, running, quick):
            return {}["mbps"]

    with pytest.raises(LabError, match="KeyError: 'mbps'"):
        Broken().run(SimpleNamespace(hosts=[1, 2]), SimpleNamespace(processes=[[], []]), quick=True)


def test_a_missing_program_names_its_package(monkeypatch):
    monkeypatch.setattr("lab.hosts.needs.shutil.which", lambda _: None)
    assert BY_NAME["video"].lacking() == "the program ristsender is missing: apt-get install rist-tools"
    assert BY_NAME["tcp-1"].lacking() == "the program iperf3 is missing: apt-get install iperf3"
    assert Ping().lacking() is None


def test_a_program_that_never_gets_ready_is_ended(lab):
    host = lab.host("one", lab.switch("net"))
    with pytest.raises(LabError, match="before writing 'ready'"), program(host, "sh", "-c", "echo never >&2", name="never", ready="ready"):
        pass
    assert "never" in host.processes[-1].output() and not host.processes[-1].alive


# --- the network of a host ---


def test_a_boot_forgets_what_programs_made_and_nothing_else(lab):
    host = lab.host("one", lab.switch("net"))
    before = host.network_state()
    host.ip("link add tunnel0 type bridge", "address add 10.9.0.1/24 dev tunnel0", "link set tunnel0 up")
    host.ip("route add 10.99.0.0/16 via 10.9.0.2", "route add default dev eth0 table 77", "rule add to 10.98.0.0/16 priority 500 table 77")
    host.run("ip", "-6", "rule", "add", "priority", 501, "table", 78)
    assert host.network_state() != before
    network_changes.forget(host)
    assert host.network_state() == before


def test_a_link_that_was_away_has_all_that_it_had(lab):
    one, two = lab.switch("one"), lab.switch("two")
    lab.router("gate", one, two)
    place = Place([lab.host("left", one), lab.host("right", one)], None, None, "packets", "")
    right = place.hosts[1]

    def seen():
        views = ("-4 route show", "-6 route show default", "-6 address show scope global")
        return [line.strip() for view in views for line in right.run("ip", "-o", *view.split()).stdout.splitlines()]

    before = seen()
    assert any("default via" in line for line in before)
    Flap().cause(place, None, None)
    assert sorted(seen()) == sorted(before)


def test_a_host_that_moved_ends_where_it_was(lab):
    place = lay_out(lab)
    right = place.hosts[1]
    own, other = network_changes.own_and_other(right)
    assert str(own.ip) == right.ipv4 and other.network == own.network and str(other.ip) == "10.77.1.254"
    network_changes.move(right, other)
    assert network_changes.own_and_other(right) == (other, own), "from there it finds its own again"
    assert right.ipv4 not in right.run("ip", "-4", "address", "show").stdout
    network_changes.move(right, own)
    assert Move().run(place, bare(place), quick=True)["tries"] == 2
    assert network_changes.own_and_other(right) == (own, other)


@pytest.mark.skipif(not shutil.which("nft"), reason="needs the program nft: apt-get install nftables")
def test_a_host_that_is_not_found_again_is_put_back(lab, monkeypatch):
    place = lay_out(lab)
    right = place.hosts[1]
    own, _ = network_changes.own_and_other(right)
    right.run("nft", "-f", "-", text=f"table inet t {{ chain c {{ type filter hook input priority 0; ip daddr != {own.ip} drop; }}; }}")
    monkeypatch.setattr(Move, "limit", lambda self, quick: 1)
    with pytest.raises(LabError, match=r"connected again after the address changed: left had no answer from 10.77.1.254 within 1 s"):
        Move().run(place, bare(place), quick=True)
    assert network_changes.own_and_other(right)[0] == own


# --- figures ---


def test_names_are_unique_and_say_the_unit_of_what_stands_in_tables():
    assert max(collections.Counter(work.name for work in ALL).values()) == 1
    for work in ALL:
        assert work.main.split("_")[-1] in UNITS and work.better in ("more", "less") and work.title and re.fullmatch(r"[a-z0-9-]+", work.name)
        assert 0 < work.seconds(True) <= work.seconds(False) and work.seconds(True) < 15


def test_the_estimated_duration_of_a_work_depends_on_the_link():
    links = profiles.load()
    takes = {work.name: {name: work.takes(True, link) for name, link in links.items()} for work in ALL}
    assert all(seconds >= BY_NAME[name].seconds(True) for name, there in takes.items() for seconds in there.values())
    for name in ("download", "quic-first-byte"):
        order = [takes[name][link] for link in ("baseline", "low", "medium", "high", "satellite")]
        assert order == sorted(order) and order[-1] > 10 * order[0], name
    assert takes["ping"]["baseline"] < takes["ping"]["low"] < takes["ping"]["satellite"], "what got lost is waited for"
    assert takes["payload"]["mtu-1280"] > takes["payload"]["baseline"]
    assert 40e6 < estimate.stream_bps(links["low-loss"], "right") < 70e6 < estimate.stream_bps(links["shallow"], "right") == 100e6


def test_late_answers_are_waited_for_as_long_as_the_link_suggests():
    assert [echo.patience_s(longest) for longest in (None, 0.05, 80.0, 600.0)] == [2.0, 0.5, 0.8, 2.0]


def test_round_trips_are_reported_with_their_spread():
    result = echo_figures({"sent": 8, "ms": [1.0, 3.0, 2.0, 10.0]})
    assert result == {"average_ms": 4.0, "p50_ms": 2.0, "p99_ms": 10.0, "max_ms": 10.0, "jitter_ms": 3.6667, "lost_percent": 50.0, "echoes": 8}
    assert echo_figures({"sent": 1, "ms": [5.0]})["jitter_ms"] == 0


def test_runs_at_once_are_added_and_their_ways_stay_apart():
    one = {"mbps": 10.0, "ways_mbps": [4.0, 6.0], "retransmits": 1, "congestion_control": "cubic"}
    result = together([one, one | {"mbps": 5.0, "ways_mbps": [5.0]}])
    assert result == {"mbps": 15.0, "ways_mbps": [4.0, 6.0, 5.0], "retransmits": 2, "congestion_control": "cubic"}


def test_another_congestion_control_than_the_sites_is_no_measurement():
    check_congestion("cubic", "cubic")
    check_congestion("unknown", "bbr")
    with pytest.raises(LabError, match="ran with reno instead of cubic"):
        check_congestion("reno", "cubic")


def test_datagrams_fit_into_a_smaller_interface(lab):
    place = lay_out(lab)
    place.hosts[0].ip("link set eth0 mtu 1280")
    figures = done(Udp("udp-1", "", "1M"), place, bare(place))
    assert figures["datagram_bytes"] == 1252 and figures["packets"] > 0


BULK = {
    "bytes": 2_500_000, "microseconds": 2_000_000, "congestion_control": "cubic", "sent_packets": 2000, "lost_packets": 10, "congestion_events": 2,
    "datagram_bytes": 1372, "sent_bytes": 3_000_000, "sent_datagrams": 2200, "send_calls": 220,
}  # fmt: skip


def test_quic_in_bulk_is_what_the_receiver_counted():
    result = bulk_figures(BULK)
    assert (result["mbps"], result["taken_for_lost_percent"], result["datagrams_per_call"]) == (10.0, 0.5, 10.0)
    with pytest.raises(LabError, match="nothing arrived"):
        bulk_figures(BULK | {"bytes": 0})


def test_failed_connections_are_counted():
    result = {"tries": 4, "handshake_ms": [1.0, 2.0, 3.0], "first_byte_ms": [2.0, 3.0, 9.0], "failures": ["connecting failed: timed out"]}
    figures = first_byte_figures(result)
    assert (figures["p50_ms"], figures["max_ms"], figures["handshake_p50_ms"], figures["failed_percent"]) == (3.0, 9.0, 2.0, 25.0)
    with pytest.raises(LabError, match="none of 1 connections succeeded: timed out"):
        first_byte_figures({"tries": 1, "handshake_ms": [], "first_byte_ms": [], "failures": ["timed out"]})


def test_a_congestion_control_that_quinn_does_not_have_is_refused():
    hosts = [SimpleNamespace(), SimpleNamespace()]
    with pytest.raises(LabError, match="no congestion control dctcp"):
        Quic().ask(SimpleNamespace(hosts=hosts, congestion="dctcp"), None, "bulk", timeout=1)


def test_the_downloaded_data_is_always_the_same():
    assert QUICK.sizes() == QUICK.sizes() and len(QUICK.sizes()) == 202 and QUICK.sizes().count(QUICK.size) == 2
    assert len(FULL.sizes()) == FULL.small + FULL.large and min(FULL.sizes()) >= 500


def test_a_file_with_a_wrong_status_or_size_is_a_failure():
    lines = "200 500 1 0.010 0.012\n200 700 0 0.002 0.008\n"
    result = download_figures(lines, [500, 700])
    assert (result["took_s"], result["connections"], result["files"], result["first_byte_p50_ms"], result["mbps"]) == (0.02, 1, 2, 2.0, 0.48)
    with pytest.raises(LabError, match="2 of 2 files arrived, 1 of them with a wrong status or size"):
        download_figures(lines, [500, 701])
    with pytest.raises(LabError, match="2 of 3 files arrived"):
        download_figures(lines, [500, 700, 1])


def test_curl_gets_every_file_once(tmp_path):
    text = wanted(tmp_path, "https://10.9.0.2:1", 3)
    assert re.findall(r'url = "https://10.9.0.2:1/(\d)"\noutput = "/dev/null"', text) == ["0", "1", "2"]
    assert 'write-out = "%{http_code} %{size_download}' in text and text.count("\\n") == 1


def test_video_counts_what_came_in_time():
    # Two of seven seconds are left out: the first 20 of 70.
    arrived = [[number, 1000.0] for number in range(65)] + [[65, IN_TIME_MS + 1.0], [65, 1000.0], [66, IN_TIME_MS]]
    result = video_figures({"sent": 70, "seconds": 7, "arrived": arrived, "late_ms": 0.1, "rist": ['{"received":9,"recovered":5,"lost":3}']})
    assert (result["in_time_percent"], result["delivered_percent"], result["sent_datagrams"]) == (92.0, 94.0, 50)
    assert (result["recovered_datagrams"], result["given_up_datagrams"], result["delay_p50_ms"]) == (5, 3, 1000.0)
    with pytest.raises(LabError, match="no picture arrived"):
        video_figures({"sent": 70, "seconds": 7, "arrived": [[3, 1.0]], "late_ms": 0.0})


def test_a_stream_is_a_transport_stream_with_numbered_datagrams():
    data = stream.datagram(300, 12345)
    assert len(data) == 1316 and stream.stamp(data) == (300, 12345) and stream.stamp(data[:-1]) is None
    packets = [data[n : n + 188] for n in range(0, len(data), 188)]
    assert {packet[0] for packet in packets} == {0x47} and {packet[1:3] for packet in packets} == {b"\x01\x00"}
    counters = [packet[3] & 15 for packet in packets]
    assert all(after == (before + 1) % 16 for before, after in itertools.pairwise(counters))


@pytest.mark.parametrize("limit", (575, 576, 577, 1280, 1419, 1420))
def test_the_largest_that_arrives_is_found(limit):
    assert largest_packet.largest(lambda size: size <= limit, 576, 1420) == (limit if limit >= 576 else None)


def test_an_echo_request_of_any_length_has_a_right_checksum():
    for data in (b"", b"\x01", b"\xff" * 7, bytes(range(200))):
        even = data + bytes(len(data) % 2)
        assert largest_packet.checksum(even + largest_packet.checksum(data).to_bytes(2)) == 0


def test_memory_and_cost_are_less_is_better():
    assert {work.better for work in (Memory(), Cost(), Reboot(), Flap(), Move(), Ping())} == {"less"}
    assert isinstance(Cost(), Tcp) and Cost().main == "machine_cpu_s_per_gb"
