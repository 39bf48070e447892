"""The figures of the demo as text."""

# Width of the three columns of one run.
WIDTH = 24


def per_second(runs):
    """Returns one row per second, with a column per run, and a last row with totals."""
    heads = [f"{run['from']} → {run['to']}" for run in runs]
    lines = ["        " + "".join(f"{head:>{WIDTH}}" for head in heads)]
    lines.append("second  " + "".join(_columns("Mbit/s", "resent", "rtt ms") for _ in runs))
    longest = max(len(run["per_second"]) for run in runs)
    for number in range(longest):
        cells = [_cell(run["per_second"][number]) if number < len(run["per_second"]) else " " * WIDTH for run in runs]
        lines.append(f"{number + 1:>6}  " + "".join(cells))
    lines.append(" total  " + "".join(_cell(run) for run in runs))
    return "\n".join(lines)


def summary(result):
    """Returns the figures that the table of rates does not show."""
    rows = [
        ("path", result["path"]),
        ("time to first packet", f"{result['first_packet_ms']:.1f} ms (no session yet: handshake included{', through the relay' if result['relayed_first'] else ''})"),
        ("time to a direct path", f"{result['direct_after_ms']:.0f} ms from the first packet on, {result['lost']} packets lost meanwhile"),
        ("round trip, relayed", "not seen: direct at once" if result["relayed_rtt_ms"] is None else f"{result['relayed_rtt_ms']:.2f} ms"),
        ("round trip, direct", f"{result['rtt_ms']:.2f} ms"),
        ("MTU, found by probes", "; ".join(f"{row['from']} → {row['to']}: {row['bytes']} bytes" for row in result["mtu"])),
        ("congestion control", result["congestion_control"]),
        ("names", f"{result['names']['name']} answered in {result['names']['median_ms']:.2f} ms, by the node itself"),
        ("subnet route", f"{result['site']['route']} behind {result['site']['router']}, used {result['site']['connected_after_ms']} ms after it was accepted"),
        ("policy", f"port {result['policy']['allowed_port']} connected, port {result['policy']['denied_port']} {result['policy']['verdict']}: {result['policy']['refused_packets']} packets refused"),
        ("daemon memory (RSS)", _memory(result)),
        ("program size", f"{result['node_binary_bytes'] / 1e6:.2f} MB"),
    ]
    return "\n".join(f"{name:<22}{value}" for name, value in rows)


def _cell(row):
    return _columns(f"{row['mbps']:.0f}", row["retransmits"], f"{row['rtt_ms']:.2f}")


def _columns(rate, retransmits, rtt):
    return f"{rate:>8}{retransmits:>8}{rtt:>8}"


def _memory(result):
    return (
        f"{result['node_rss_kib']} KiB after the traffic, {result['node_rss_idle_kib']} KiB before, "
        f"{result['node_rss_peak_kib']} KiB at its highest (the largest of {result['nodes']} daemons)"
    )
