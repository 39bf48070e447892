"""The NATs of the lab behave as their names say: determined from outside with UDP sockets, and compared with the list of the simulator."""

import dataclasses
import json
import time

import pytest

from lab.hosts import needs
from lab.hosts.nats import KINDS, Internet, discovery
from lab.hosts.nats.kinds import PLACES, VERDICTS, pairs
from lab.hosts.wait import LabError, wait_until
from lab.runs.nats import document, matrix, picture, trial

pytestmark = pytest.mark.skipif(bool(needs.missing_reason("nft")), reason=needs.missing_reason("nft"))
UDP = [name for name, kind in KINDS.items() if kind.udp]
FIELDS = ("name", "mapping", "filtering", "ports", "timeout_s", "hairpin", "udp", "tcp", "one_way", "carrier")


@pytest.fixture
def world(lab):
    """An internet with two servers that report the source address of a host."""
    internet = Internet(lab)
    servers = discovery.Servers(internet.server("stun1"), internet.server("stun2"))
    yield internet, servers
    servers.close()


@pytest.fixture
def connection(world):
    """Opens a host behind a kind of NAT with a socket that has sent to a server: (host, socket of the server, own socket, external address)."""
    opened = []

    def open_one(kind):
        internet, servers = world
        host = internet.behind(kind)
        own = discovery.socket_in(host)
        opened.append(own)
        return host, servers.sockets[0][0], own, servers.mapped(own)

    yield open_one
    for own in opened:
        own.close()


def test_the_list_is_the_simulators():
    verdicts = json.loads(VERDICTS.read_text())
    assert verdicts["kinds"] == [{field: getattr(kind, field) for field in FIELDS} for kind in KINDS.values()]
    assert [(pair["a"], pair["b"], pair["place"]) for pair in verdicts["pairs"]] == list(pairs())


def test_the_page_shows_the_list():
    verdicts = json.loads(VERDICTS.read_text())["pairs"]
    assert document.PAGE.read_text() == document.filled(document.PAGE.read_text(), verdicts)
    assert document.PICTURE.read_text() == document.drawn(verdicts)


@pytest.mark.parametrize("name", KINDS)
def test_mapping_and_filtering_are_what_the_name_says(world, name):
    internet, servers = world
    kind, host = KINDS[name], internet.behind(name)
    if not kind.udp:
        assert (discovery.mapping(servers, host), discovery.filtering(servers, host)) == ("blocked", "blocked")
        return
    assert discovery.mapping(servers, host) == kind.mapping
    assert discovery.filtering(servers, host) == kind.filtering


def test_ports_are_drawn_or_counted(world):
    internet, servers = world
    counted = discovery.ports(servers, internet.behind("predictable"))
    assert [after - before for before, after in zip(counted, counted[1:])] == [1] * (len(counted) - 1)
    drawn = discovery.ports(servers, internet.behind("symmetric"))
    assert len(set(drawn)) == len(drawn)
    assert len({after - before for before, after in zip(drawn, drawn[1:])}) > 1


@pytest.mark.parametrize("name", [name for name in UDP if KINDS[name].translates and not KINDS[name].carrier])
def test_hairpin_is_on_where_it_is_said(world, name):
    internet, servers = world
    host = internet.behind(name)
    assert discovery.hairpins(servers, host, internet.guest(host)) == KINDS[name].hairpin


def test_a_rejected_datagram_gets_no_answer(world):
    internet, servers = world
    host = internet.behind("port-restricted")
    asker = servers.sockets[0][0]
    asker.connect((str(host.nat.external), 40000))
    asker.send(b"anybody there?")
    # An ICMP error would raise ConnectionRefusedError here.
    with pytest.raises(BlockingIOError):
        time.sleep(discovery.QUIET_S)
        asker.recv(100)


@pytest.mark.parametrize("every", [3, 1], ids=["third", "all"])
def test_every_pair_gets_as_far_as_its_verdict_says(world, every):
    """By day every third pair, at night all. A pair that stays apart takes half a second."""
    internet, servers = world
    one, two = ({name: internet.behind(name) for name in KINDS} for _ in range(2))
    there = {"same-lan": internet.beside, "isolated": internet.guest, "same-carrier": internet.neighbour}
    wrong = []
    for pair in json.loads(VERDICTS.read_text())["pairs"][::every]:
        a, b, place = pair["a"], pair["b"], pair["place"]
        other = two[b] if place == "apart" else there[place](one[a])
        punched = discovery.punch(servers, one[a], other)
        # Ports are not predicted here, so a pair that needs prediction stays apart.
        if (punched is not None) != (pair["reach"] == "direct"):
            wrong.append((a, b, place, pair["reach"], punched))
    assert not wrong


def test_a_mapping_is_forgotten_after_its_time_and_kept_by_sending(connection):
    short = dataclasses.replace(KINDS["full-cone"], timeout_s=2)
    _, server, own, seen = connection(short)
    for _ in range(4):
        time.sleep(1)
        assert discovery.passes(own, server, server.getsockname()) == seen
    time.sleep(2 * short.timeout_s)
    assert discovery.passes(server, own, seen) is None
    assert discovery.passes(own, server, server.getsockname()) not in (None, seen)


def test_the_half_minute_is_set_in_the_kernel(world):
    internet, _ = world
    nat = internet.behind("timeout-30").nat
    assert nat.run("cat", *(f"/proc/sys/net/netfilter/nf_conntrack_udp_timeout{end}" for end in ("", "_stream"))).stdout.split() == ["30", "30"]
    assert nat.run("nft", "list", "ruleset").stdout.count("timeout 30s") == 3


@pytest.mark.parametrize("name", ["full-cone", "port-restricted", "symmetric", "carrier", "firewall"])
def test_after_forgetting_no_host_gets_in_before_one_went_out(connection, name):
    host, server, own, seen = connection(name)
    assert discovery.passes(server, own, seen)
    host.nat.forget()
    assert discovery.passes(server, own, seen) is None
    again = discovery.passes(own, server, server.getsockname())
    assert discovery.passes(server, own, again)
    if KINDS[name].mapping == "endpoint-independent" and not KINDS[name].carrier:
        assert again == seen


@pytest.mark.parametrize("name", [name for name in UDP if KINDS[name].translates])
def test_rebinding_gives_another_port(connection, name):
    host, server, own, seen = connection(name)
    (host.carrier or host.nat).rebind()
    again = discovery.passes(own, server, server.getsockname())
    assert again[0] == seen[0]
    assert again[1] != seen[1]
    assert discovery.passes(server, own, again)
    assert discovery.passes(server, own, seen) is None


def test_another_address_and_the_old_one_is_dead(connection):
    host, server, own, seen = connection("full-cone")
    moved = host.nat.change_address()
    again = discovery.passes(own, server, server.getsockname())
    assert again[0] == str(moved) != seen[0]
    assert discovery.passes(server, own, again)
    assert discovery.passes(server, own, seen) is None
    with pytest.raises(LabError):
        connection("firewall")[0].nat.change_address()


@pytest.mark.parametrize("direction", ["in", "out", "both"])
def test_a_black_hole_spares_servers_and_can_be_reverted(world, direction):
    internet, servers = world
    one, two = internet.pair("open", "open")
    with discovery.socket_in(one) as left, discovery.socket_in(two) as right:
        one.nat.black_hole(direction)
        assert (discovery.passes(left, right, right.getsockname()) is None) == (direction != "in")
        assert (discovery.passes(right, left, left.getsockname()) is None) == (direction != "out")
        assert servers.mapped(left)
        one.nat.restore()
        assert discovery.passes(right, left, left.getsockname())


def test_a_cut_cable_carries_nothing_until_it_is_restored(connection):
    host, server, own, seen = connection("port-restricted")
    host.nat.cut()
    assert discovery.passes(own, server, server.getsockname()) is None
    host.nat.restore()
    # A link takes a moment to come up.
    wait_until(lambda: discovery.passes(own, server, server.getsockname()) == seen, "the mended cable to carry")


def test_udp_is_blocked_and_let_through_again(connection):
    host, server, own, _ = connection("port-restricted")
    host.nat.allow_udp(False)
    assert discovery.passes(own, server, server.getsockname()) is None
    host.nat.allow_udp()
    assert discovery.passes(own, server, server.getsockname())


@pytest.mark.parametrize(("name", "ports"), [("tcp-443", {443}), ("udp-blocked", {443, 8288}), ("firewall", {443, 8288})])
def test_tcp_passes_where_it_may(world, name, ports):
    internet, servers = world
    host, server = internet.behind(name), servers.hosts[0]
    for port in (443, 8288):
        listener = server.start("python3", "-Ic", _LISTEN, server.ipv4, port, name=f"listen-{port}")
        listener.wait_for_output("ready")
        tried = host.run("python3", "-Ic", _CONNECT, server.ipv4, port, check=False)
        assert (tried.returncode == 0) == (port in ports), tried.stderr


_LISTEN = "import socket, sys; s = socket.create_server((sys.argv[1], int(sys.argv[2]))); print('ready', flush=True); sys.stdin.read()"
_CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 2).close()"


def test_unknown_places_are_refused(world):
    internet, _ = world
    with pytest.raises(LabError):
        internet.pair("open", "firewall", "same-lan")
    assert set(PLACES) == {place for _, _, place in pairs()}


PAIR = {"a": "open", "b": "full-cone", "place": "apart", "reach": "direct", "why": "the verdict's words"}


def test_the_worst_run_decides_and_times_are_medians():
    runs = [trial.Outcome("direct", 10, 100), trial.Outcome("relay", 30, None, why="no answer"), trial.Outcome("direct", 20, 300)]
    row = matrix.row_of(PAIR, runs)
    assert (row["path"], row["why"], row["direct_runs"]) == ("relay", "no answer", 2)
    assert (row["first_packet_ms"], row["direct_ms"], row["direct_max_ms"]) == (20, 200, 300)
    assert matrix.row_of(PAIR, runs[:1])["why"] == "the verdict's words"


def test_a_required_direct_path_that_is_missing_fails_the_matrix(capsys):
    rows = {path: matrix.row_of(PAIR, [trial.Outcome(path)]) for path in ("direct", "relay", "none")}
    assert matrix.judge([rows["direct"]]) == 0
    assert matrix.judge([rows["direct"], rows["relay"]]) == 1
    assert "open – full-cone (apart) must be direct" in capsys.readouterr().err
    assert matrix.summary([rows["direct"]]) == ["1 of 1 pairs", "1 of 1 runs", "yes"]
    mixed = matrix.row_of(PAIR, [trial.Outcome("direct"), trial.Outcome("relay")])
    assert matrix.summary([rows["direct"], mixed, rows["none"] | {"possible": False}]) == ["1 of 2 pairs", "2 of 3 runs", "no"]
    guess = matrix.row_of(PAIR | {"reach": "guess"}, [trial.Outcome("relay")])
    assert not guess["possible"]
    assert matrix.judge([guess]) == 0
    assert matrix.judge([rows["none"] | {"possible": False}]) == 1
    assert "had no path at all" in capsys.readouterr().err


def test_the_essential_half_has_every_kind_and_place():
    chosen = [pair for pair in json.loads(VERDICTS.read_text())["pairs"] if matrix.essential(pair)]
    assert {name for pair in chosen for name in (pair["a"], pair["b"])} == set(KINDS)
    assert {pair["place"] for pair in chosen} == set(PLACES)


def test_the_picture_names_each_pair_and_its_reason():
    row = matrix.row_of(PAIR, [trial.Outcome("direct", 10, 100)])
    drawn = picture.svg(matrix.cells([row]), "a title", matrix.words())
    assert "open – full-cone: direct. the verdict&#x27;s words" in drawn
    assert ">100</text>" in drawn
