"""Port mapping by a router: the real miniupnpd, and gateways with false answers (fault D15)."""

import pytest

from lab.hosts import needs
from lab.hosts.programs import binary
from lab.hosts.wait import wait_until
from lab.nodes.gateway import HomeRouter

PORT = 8288
needs_miniupnpd = pytest.mark.skipif(bool(needs.missing_reason("miniupnpd", "nft")), reason=needs.missing_reason("miniupnpd", "nft"))
needs_nft = pytest.mark.skipif(bool(needs.missing_reason("nft")), reason=needs.missing_reason("nft"))


def ask(host, *ports):
    """Starts the program that requests ports; it runs the same thread as the daemon."""
    process = host.start(binary("examples/portmap"), name="portmap")
    process.write(f"ports {' '.join(map(str, ports or (PORT,)))}\n")
    return process


def mapped(process, port=PORT):
    """Returns (outer endpoint, protocol) of the first mapping that it reports."""
    process.wait_for_output(f"mapped {port} ")
    line = next(line for line in process.output().splitlines() if line.startswith(f"mapped {port} "))
    return tuple(line.split()[2:])


def report(process):
    """Returns {protocol: its state in one word}."""
    before = process.output().count("report end")
    process.write("report\n")
    wait_until(lambda: process.output().count("report end") > before, "a report", details=process.tail)
    words = [line.split() for line in process.output().splitlines() if line.startswith("report ")]
    return {word[1]: word[2] for word in words if len(word) == 3}


def end(process):
    """Ends it as the daemon would, and waits for it."""
    process.close_input()
    assert process.wait() == 0


@needs_miniupnpd
@pytest.mark.parametrize(
    ("protocol", "options"),
    [
        ("pcp", {}),
        ("nat-pmp", {"without": ["pcp"]}),
        ("upnp", {"without": ["pcp", "natpmp"]}),
        ("upnp", {"without": ["pcp", "natpmp"], "version1": True}),
    ],
    ids=["pcp", "nat-pmp", "upnp-2", "upnp-1"],
)
def test_a_port_is_mapped_reached_from_outside_and_given_back(lab, protocol, options):
    home = HomeRouter(lab)
    host, outsider = lab.host("one", home.inside), lab.host("far", home.outside)
    home.serve(**options)
    process = ask(host)
    outside, by = mapped(process)
    assert (outside, by) == (f"{home.outer}:{PORT}", protocol)
    assert home.reached(host, PORT, outside, outsider)
    assert report(process)[protocol] == "serves"
    end(process)
    wait_until(lambda: not home.mappings(), "the mapping to go", details=process.tail)
    assert "stopped" in process.output()
    assert not home.reached(host, PORT, outside, outsider)


@needs_miniupnpd
@pytest.mark.parametrize("without", [[], ["pcp", "natpmp"]], ids=["pcp", "upnp"])
def test_two_hosts_behind_one_router_get_a_port_each(lab, without):
    home = HomeRouter(lab)
    hosts = [lab.host(name, home.inside) for name in ("one", "two")]
    home.serve(without=without)
    first = ask(hosts[0])
    assert mapped(first)[0] == f"{home.outer}:{PORT}"
    second = ask(hosts[1])
    outside = mapped(second)[0]
    assert outside != f"{home.outer}:{PORT}"
    assert home.reached(hosts[1], PORT, outside, lab.host("far", home.outside))
    end(second)
    wait_until(lambda: len(home.mappings()) == 1, "one mapping to stay", details=second.tail)


@needs_miniupnpd
@pytest.mark.parametrize("without", [[], ["pcp", "natpmp"]], ids=["pcp", "upnp"])
def test_a_host_that_crashed_gets_its_port_again(lab, without):
    home = HomeRouter(lab)
    host = lab.host("one", home.inside)
    home.serve(without=without)
    first = ask(host)
    outside = mapped(first)[0]
    first.kill()
    # PCP identifies a mapping by a nonce that was lost with the process, so it refuses. NAT-PMP and UPnP identify the mapping by its host.
    assert mapped(ask(host))[0] == outside
    assert home.reached(host, PORT, outside, lab.host("far", home.outside))


@needs_miniupnpd
def test_ports_come_and_go_with_the_lanes(lab):
    home = HomeRouter(lab)
    host = lab.host("one", home.inside)
    home.serve()
    process = ask(host, PORT, PORT + 1)
    mapped(process)
    mapped(process, PORT + 1)
    process.write(f"ports {PORT + 1}\n")
    process.wait_for_output(f"lost {PORT}")
    wait_until(lambda: len(home.mappings()) == 1, "one mapping to stay", details=process.tail)
    process.write("ports\n")
    wait_until(lambda: not home.mappings(), "all mappings to go", details=process.tail)


@needs_nft
def test_without_a_gateway_that_maps_nothing_comes_and_it_says_so(lab):
    home = HomeRouter(lab)
    process = ask(lab.host("one", home.inside))
    wait_until(lambda: report(process)["upnp"] == "silent", "UPnP to be given up", details=process.tail, pause=1)
    # The kernel of the router reports a closed port.
    assert report(process) == {"pcp": "closed", "nat-pmp": "closed", "upnp": "silent"}
    assert "mapped" not in process.output()
    alone = ask(lab.host("two", lab.switch("alone")))
    alone.write("report\n")
    alone.wait_for_output("no gateway to ask")


def lies(lab, how, verdict, hears=None):
    """Puts a host behind a gateway with these false answers: nothing is mapped, the protocol's state is `verdict`, memory stays small, and the end is
    orderly."""
    home = HomeRouter(lab)
    host = lab.host("one", home.inside)
    elsewhere = lab.host("other", home.inside)
    trap = home.serve_faulty({"pcp": {}, "natpmp": {}, "upnp": {}}, elsewhere)
    for protocol in how.values():
        for key in ("location", "elsewhere"):
            if key in protocol:
                protocol[key] = elsewhere.ipv4
        if "control" in protocol:
            protocol["control"] = f"http://{elsewhere.ipv4}:5000/ctl"
    liar = home.serve_faulty(how)
    process = ask(host)
    name, word = verdict
    wait_until(lambda: report(process)[name] == word, f"{name} to be {word}", details=process.tail, pause=1)
    if hears:
        assert hears in liar.output()
    assert process.rss_kib("VmHWM") < 20 * 1024
    end(process)
    assert "mapped" not in process.output()
    # A search reaches the whole network; later requests go to the gateway only.
    assert {line for line in trap.output().splitlines()} <= {"ready", "search"}


@needs_nft
@pytest.mark.parametrize(
    "lie",
    [
        {"port": 0},
        {"outside": "127.0.0.1"},
        {"outside": "0.0.0.0"},
        {"outside": "224.0.0.1"},
        {"outside": "169.254.169.254"},
        {"lease": 1},
        {"lease": 0},
    ],
    ids=lambda lie: "-".join(f"{key}-{value}" for key, value in lie.items()),
)
@pytest.mark.parametrize("protocol", ["pcp", "natpmp"])
def test_fault_d15_mappings_that_cannot_be_true_are_not_used(lab, protocol, lie):
    # A lease of zero does not count as an answer: the request is repeated, and finally given up.
    word = "silent" if lie == {"lease": 0} else "unusable"
    lies(lab, {protocol: lie}, ({"pcp": "pcp", "natpmp": "nat-pmp"}[protocol], word), protocol)


@needs_nft
@pytest.mark.parametrize(
    ("lie", "word"),
    [
        ({"location": True}, "unusable"),
        ({"control": True}, "unusable"),
        ({"page": "redirect", "elsewhere": True}, "unusable"),
        ({"page": "giant"}, "unusable"),
        ({"page": "drip"}, "unusable"),
        ({"page": "hang", "replies": 100}, "unusable"),
        ({"page": "garbage"}, "unusable"),
        ({"outside": "127.0.0.1"}, "unusable"),
        ({"error": 606}, "refused"),
        ({"error": 718}, "refused"),
    ],
    ids=lambda lie: "-".join(f"{key}-{value}" for key, value in lie.items()) if isinstance(lie, dict) else lie,
)
def test_fault_d15_pages_that_lead_astray_never_end_or_never_come_are_given_up(lab, lie, word):
    lies(lab, {"upnp": lie}, ("upnp", word), "search")


@needs_nft
def test_fault_d15_an_endless_lease_at_another_port_is_a_candidate_and_no_more(lab):
    home = HomeRouter(lab)
    host = lab.host("one", home.inside)
    home.serve_faulty({"pcp": {"lease": 0xFFFFFFFF, "port": 4711, "outside": "5.5.5.200"}})
    process = ask(host)
    # The mapping is reported, but probes through it get no answer.
    assert mapped(process) == ("5.5.5.200:4711", "pcp")
    end(process)
