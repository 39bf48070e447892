"""Tables and verdicts of the measurements of `lab.runs.flood`, which writes docs/flood.md with them."""

from ..measure import markdown

# Share of the target rate of R3 and R4 that the generator must reach for a verdict.
ENOUGH = 0.95
THREADS = {"taut": "agent", "taut-lane-0": "lane"}
WORDS = {"network": "members of a network", "wg": "nodes of `taut wg`"}


def verdicts(rows):
    """{mode: {target: {"verdict": "stretch" | "gate" | "missed" | "not measured", "seen"}}}."""
    result = {}
    for mode in dict.fromkeys(row["mode"] for row in rows):
        by_kind = {(row["kind"], row["aimed_pps"]): row for row in rows if row["mode"] == mode}
        result[mode] = {
            "R2": _r2(by_kind.values()),
            "R3": _r3(by_kind.get(("bad-mac1", 200_000))),
            "R4": _r4(by_kind.get(("spoofed", 20_000)), by_kind.get(("spoofed", 50_000))),
        }
    return result


def _r2(rows):
    """R2: bytes out per byte in are never above 1, and 0 for senders that do not know the key of the node."""
    most = max(row["bytes_back_per_byte"] for row in rows)
    answers = [row["answers"] for row in rows if row["kind"] == "bad-mac1"]
    seen = f"{most:.2f} bytes back per byte at most; without a good mac1 {sum(answers)} answers" if answers else f"{most:.2f} bytes back per byte"
    return _judged(most <= 1 and not any(answers), most <= 0.5, seen)


def _r3(row):
    """R3: 200,000 datagrams per second without a valid mac1."""
    if row is None:
        return {"verdict": "not measured", "seen": ""}
    lost = row["throughput_lost"]
    return _asked(row, _judged(lost < 0.2, lost < 0.05, f"{_percent(lost)} of a flow's throughput lost"))


def _r4(row, harder):
    """R4: 20,000 valid initiations per second from invented sources; 50,000 for the stretch goal."""
    if row is None:
        return {"verdict": "not measured", "seen": ""}
    gate, seen = _lets_in(row, 2_000)
    stretch = False
    if harder is not None:
        stretch, more = _lets_in(harder, 500)
        stretch, seen = stretch and _full(harder) and harder["throughput_lost"] < 0.05, f"{seen}; {more}, {_percent(harder['throughput_lost'])} of a flow's throughput lost"
    return _asked(row, _judged(gate, stretch, seen))


def _lets_in(row, limit):
    """Returns whether all peers connected, the slowest of a hundred within `limit` ms, with at most 2,000 Diffie-Hellman computations per second."""
    slowest, exchanges = row["connect_p99_ms"], row["dh_per_s"]
    good = not row["connects_failed"] and slowest is not None and slowest <= limit and row["flow_stays"] and (exchanges or 0) <= 2_000
    less = "" if _full(row) else f" ({row['sent_pps']:,} were made)"
    seen = f"at {row['aimed_pps']:,} a second{less} {row['connects'] - row['connects_failed']} of {row['connects']} got in, p99 {_ms(slowest)} ms"
    return good, seen + (f", {exchanges:,} DH/s" if exchanges is not None else "")


def _full(row):
    return row["sent_pps"] >= ENOUGH * row["aimed_pps"]


def _asked(row, judged):
    """Returns the verdict if the generator was fast enough."""
    less = {"verdict": "not measured", "seen": f"the generator made {row['sent_pps']:,} a second, not {row['aimed_pps']:,}: {judged['seen']}"}
    return judged if _full(row) else less


def _judged(gate, stretch, seen):
    return {"verdict": "stretch" if gate and stretch else "gate" if gate else "missed", "seen": seen}


def columns(row):
    """Returns a row of the table by column name."""
    cpu = ", ".join(f"{THREADS.get(name, name)} {100 * used:.0f} %" for name, used in sorted(row["cpu_flooded"].items()) if used >= 0.01)
    counted = row["per_second"]
    return {
        "flood": f"{row['kind']} ({row['fault']})",
        "a second: made / aimed at": f"{row['sent_pps']:,} / {row['aimed_pps']:,}",
        "bytes back per byte": f"{row['bytes_back_per_byte']:.3f}",
        "flow, Mbit/s, without": _spread(row["mbps_quiet"]),
        "with": _spread(row["mbps_flooded"]),
        "lost": _percent(row["throughput_lost"]),
        "packets lost, without → with": f"{_percent(row['lost_quiet']['median'])} → {_percent(row['lost_flooded']['median'])}",
        "datagrams lost by the kernel": f"{row['kernel_dropped']:,} of {row['sent']:,}",
        "new peers in": f"{row['connects'] - row['connects_failed']} of {row['connects']}",
        "ms, without": f"{_ms(row['connect_quiet_p50_ms'])}",
        "p50 / p99 / most": " / ".join(_ms(row[f"connect_{name}_ms"]) for name in ("p50", "p99", "max")),
        "handshakes a second: computed, answered": f"{counted['computed']:.0f}, {counted['answered']:.0f}" if counted else "not counted",
        "DH/s": "not counted" if row["dh_per_s"] is None else f"{row['dh_per_s']:,}",
        "memory, KiB": f"{row['memory_kib']:,} ({row['memory_grown_kib']:+,})",
        "CPU of the victim's threads": cpu,
    }


def tables(rows):
    """Returns two tables in Markdown: the floods and their cost, and the effect on honest peers."""
    cells = [columns(row) for row in rows]
    names = list(cells[0])
    first = names[:3] + names[-4:] + ["datagrams lost by the kernel"]
    second = names[:1] + [name for name in names if name not in first]
    return "\n\n".join(_markdown([{name: row[name] for name in chosen} for row in cells]) for chosen in (first, second))


def text(result):
    """Returns the text for the terminal."""
    parts = []
    for mode, targets in result["verdicts"].items():
        rows = [row for row in result["floods"] if row["mode"] == mode]
        parts.append(f"{WORDS[mode]}\n\n{tables(rows)}\n\n" + "\n".join(f"{name}: {judged['verdict']}: {judged['seen']}" for name, judged in targets.items()))
    return "\n\n".join(parts)


def page(result):
    """Returns docs/flood.md."""
    machine = result["machine"]
    rows = result["floods"]
    lengths = sorted({(row["rounds"], row["seconds"]) for row in rows})
    rounds = " or ".join(f"{count} rounds of {seconds} s without and {seconds} s with the flood" for count, seconds in lengths)
    loads = f"{min(row['load'] for row in rows)} to {max(row['load'] for row in rows)}"
    body = "\n".join(
        f"## {WORDS[mode].capitalize()}\n\n{tables([row for row in rows if row['mode'] == mode])}\n\n"
        + _markdown([{"target": name, "reached": judged["verdict"], "seen": judged["seen"]} for name, judged in targets.items()])
        + "\n"
        for mode, targets in result["verdicts"].items()
    )
    return f"""# Floods of handshakes

Made by `make flood`; changes by hand are lost. A victim, a peer with a paced UDP flow, peers that connect for the first time, and an attacker, in network
namespaces of one machine: {machine["cpu"]}, {machine["cores"]} cores, Linux {machine["kernel"]}; load before each kind {loads}. Attacker, victim
and peers share these cores, so that the figures include the cost of making the flood. Each kind: {rounds}, in turn; figures are medians, with least–most in
brackets. A new peer is a node that has just joined, with keys that the victim has not seen (`taut wg`: a known peer with a port that the victim has not seen);
its time runs from its first packet to the answer. Bytes are bytes of UDP payload.

- `bad-mac1`: initiations whose first MAC was not made for the victim (fault B1).
- `spoofed`: initiations of an unauthenticated sender that knows the victim's key, each from a different forged address and port (B2).
- `one-source`: the same from one address and port (B4).
- `replay`: one good initiation of a peer, again and again (B6).
- `ports`: half of the flood is `spoofed`, half comes from 500 ports of one address, each of which shows a cookie (B12).

{body}
Targets: R2, bytes to unauthenticated senders per byte from them: at most 1, and none to senders that do not know the node's key (stretch: 0.5). R3, at
200,000 datagrams a second without a good mac1: less than 20 % of a flow's throughput is lost (stretch: 5 %). R4, at 20,000 good initiations a second from forged
sources: no tunnel is lost, new peers get in within 2 s (p99), and at most 2,000 Diffie-Hellman a second are computed (stretch: 50,000, 500 ms, less
than 5 % of a flow's throughput lost). Nodes of `taut wg` keep stock WireGuard's timing: they show a cookie with the next attempt, 5 s later (protocol.md 2.2).
"""


def _markdown(rows):
    return markdown.table(list(rows[0]), [row.values() for row in rows])


def _spread(figures):
    return f"{figures['median']:.0f} ({figures['least']:.0f}–{figures['most']:.0f})"


def _percent(part):
    return f"{100 * part:.1f} %"


def _ms(value):
    return "-" if value is None else f"{value:.0f}" if value >= 100 else f"{value:.1f}"
