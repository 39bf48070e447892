"""The tables in Markdown, and their place in the document."""

from ...measure.markdown import table
from . import goals, model, summary
from .plan import USUAL_MTU
from .site import LINKS
from .summary import BARE, Results

BEGIN, END = "<!-- made by make bench-tunnel: begin -->", "<!-- made by make bench-tunnel: end -->"
NONE = "–"


def placed(document, text, begin=BEGIN, end=END):
    """Returns the document with the text between the markers replaced."""
    before, found, rest = document.partition(begin)
    _, ended, after = rest.partition(end)
    if not found or not ended:
        raise ValueError(f"the document has no place for the tables: {begin} … {end}")
    return f"{before}{begin}\n\n{text.strip()}\n\n{end}{after}"


def shown(figure, digits=2, scale=1.0):
    """Returns the median, and the spread in brackets with more than one round."""
    if figure is None:
        return NONE
    middle, least, most = (f"{value * scale:,.{digits}f}" for value in (figure.median, figure.least, figure.most))
    return middle if figure.rounds == 1 else f"{middle} ({least}–{most})"


class Tables:
    """All tables of one run, from the content of tunnel.json."""

    def __init__(self, content):
        self.content, self.results = content, Results(content["runs"])
        self.systems = {name: one for name, one in content["systems"].items() if not one["lacking"]}

    def rows(self, cells):
        """Returns a line per system that was run."""
        return [[one["title"], *cells(name)] for name, one in self.systems.items()]

    def of(self, name, mode, test, pick, digits=2, scale=1.0, mtu=USUAL_MTU):
        return shown(self.results.figure(name, mode, mtu, test, pick), digits, scale)

    def tcp(self, mode):
        tests = ("tcp-1", "tcp-4", "tcp-reverse", "tcp-both")
        head = ["Gbit/s", "one stream", "four streams", "reverse", "both ways, together", "retransmits of a round", "CPU s/GB, machine", "CPU s/GB, tunnel"]
        return table(
            head,
            self.rows(
                lambda name: [
                    *(self.of(name, mode, test, summary.mbps, scale=1e-3) for test in tests),
                    shown(self.results.all_retransmits(name, mode), 0),
                    self.of(name, mode, "tcp-1", summary.machine_cpu),
                    NONE if name == BARE else self.of(name, mode, "tcp-1", summary.tunnel_cpu),
                ]
            ),
        )

    def udp(self, mode):
        head = ["", "0.5 Gbit/s: lost, %", "1 Gbit/s: lost, %", "2 Gbit/s: lost, %", "unlimited: received, Gbit/s", "lost, %", "64 bytes: 1,000 packets/s received"]
        return table(
            head,
            self.rows(
                lambda name: [
                    *(self.of(name, mode, f"udp-{rate}", summary.lost) for rate in (500, 1000, 2000)),
                    self.of(name, mode, "udp-unlimited", summary.mbps, scale=1e-3),
                    self.of(name, mode, "udp-unlimited", summary.lost, 1),
                    self.of(name, mode, "small", summary.packets, 0, 1e-3),
                ]
            ),
        )

    def losses(self, mode):
        places = (summary.lost_before, summary.lost_inside, summary.lost_after)
        head = ["lost, % of the datagrams", *(f"{rate}: {place}" for rate in ("1 Gbit/s", "2 Gbit/s") for place in ("before", "inside", "after"))]
        tests = ("udp-1000", "udp-2000")
        return table(head, self.rows(lambda name: [self.of(name, mode, test, place, 1) for test in tests for place in places]))

    def latency(self, mode):
        head = ["", "idle: median, µs", "added to the bare link, µs", "p99, µs", "beside a stream: median, ms", "p99, ms", "memory idle, MB", "at its peak, MB"]

        def cells(name):
            memory = [NONE, NONE]
            if name != BARE:
                memory = [self.of(name, mode, "idle", pick, 1) for pick in (summary.idle_mb, summary.peak_mb)]
            return [
                self.of(name, mode, "idle", summary.middle_ms, 0, 1000),
                NONE if name == BARE else shown(self.results.added_us(name, mode, USUAL_MTU), 0),
                self.of(name, mode, "idle", summary.p99_ms, 0, 1000),
                self.of(name, mode, "loaded", summary.middle_ms),
                self.of(name, mode, "loaded", summary.p99_ms),
                *memory,
            ]

        return table(head, self.rows(cells))

    def mtus(self):
        mtus = sorted({run["mtu"] for run in self.content["runs"]})
        head = ["Gbit/s, one stream", *(f"{mode}, MTU {mtu:,}" for mode in self.content["modes"] for mtu in mtus)]
        return table(
            head,
            self.rows(lambda name: [self.of(name, mode, "tcp-1", summary.mbps, scale=1e-3, mtu=mtu) for mode in self.content["modes"] for mtu in mtus]),
        )

    def left_out(self):
        """Returns what could not be run, and what failed."""
        lines = [f"- {one['title']}: {one['lacking']}." for one in self.content["systems"].values() if one["lacking"]]
        for name, one in self.systems.items():
            for mode, mtu, test, why in self.results.errors(name):
                lines.append(f"- {one['title']}, {mode}, MTU {mtu:,}, {test}: {why}")
        return "\n".join(lines)


def facts(content):
    """Returns facts about the machine and the run."""
    machine, results = content["machine"], Results(content["runs"])
    versions = "; ".join(f"{one['title']}: {one['version']}" for one in content["systems"].values() if not one["lacking"])
    lengths, foreign, (lost, tests) = content["lengths"], results.foreign(), results.disturbed()
    sittings = f" in {content['sittings']} sittings" if content["sittings"] > 1 else ""
    spoilt = f" {lost} of {tests} runs were disturbed by more than that and left out." if lost else ""
    return f"""Made {content["made"]}{" with QUICK=1: short runs, figures to look at and not to cite" if content["quick"] else ""}.
{content["rounds"]} rounds{sittings}, order shuffled by seed {content["seed"]}; TCP {lengths["tcp"]} s after {lengths["omitted"]} s that are not counted, UDP {lengths["udp"]} s, echo requests every 10 ms for
{lengths["idle"]} s idle and {lengths["loaded"]} s beside a stream. {machine["cpu"]}, {machine["cores"]} cores ({", ".join(machine["cpu_flags"])}), Linux {machine["kernel"]}, iperf3 {machine["iperf3"]},
congestion control {content["congestion_control"]}, net.core.rmem_max {machine["rmem_max"]}; links: {content["offloads"]}.
Soft interrupts are counted {machine["soft_interrupts"]}. {"The kernel's own WireGuard is not in this kernel." if not machine["kernel_wireguard"] else ""}
Programs other than the tunnel and iperf3 took {shown(foreign, 0)} % of the machine (least and most in brackets) while a figure was taken.{spoilt}
{versions}."""


def verdicts(content):
    """Returns the goals with verdicts."""
    lacking = {name: one["lacking"] for name, one in content["systems"].items()}
    rows = goals.judge(Results(content["runs"]), lacking)
    return table(
        ["what", "", "reach", "go for", "seen", "verdict"],
        [
            [row["what"], row["mode"], *row["limits"], row["seen"], "**missed**" if row["verdict"] == "missed" else row["verdict"]]
            for row in rows
            if row["mode"] in content["modes"]
        ],
    )


def text(content):
    """Returns everything between the markers."""
    tables, parts = Tables(content), [facts(content)]
    names = {"free": "Free (no affinity)", "pinned": "Pinned (each host on a core of its own, iperf3 included)"}
    for mode in content["modes"]:
        parts += [f"### {names[mode]}, MTU {USUAL_MTU:,}", tables.tcp(mode), tables.udp(mode), tables.losses(mode), tables.latency(mode)]
    links = ", ".join(f"{mtu:,} on {link:,}" for mtu, link in LINKS.items())
    parts += [f"### Larger MTUs\n\nInside on the link: {links}; the bare link has its own.", tables.mtus()]
    parts += ["### To reach", verdicts(content)]
    parts += filter(None, [model.text(tables.results)])
    left = tables.left_out()
    if left:
        parts += ["### Left out, and failed", left]
    return "\n\n".join(parts)
