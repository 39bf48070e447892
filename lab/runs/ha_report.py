"""The figures of `make ha-demo`: from what was observed to rows, verdicts and text."""

from . import ha_watch
from .ha_load import acknowledged

# Targets of the time in seconds until every node has a channel again after one replica was killed: what is asked for, and what is aimed at.
REACH_S, AIM_S = 5.0, 2.0
HEADS = ("blow", "pings lost", "channels cut", "again after", "longest away", "changes failed", "none for", "a change: everywhere after")


def row(blow, start, watch, pings, requests):
    """Returns the figures of one blow. Times are in seconds; `at_s` counts from the start of the traffic, the others from the blow."""
    cut = [(at, end) for node in watch.nodes for at, end in node.outages(blow.began, blow.ended)]
    asked = [request for request in requests if blow.began <= request["at"] < blow.ended]
    failed = [request for request in asked if not acknowledged(request)]
    return {
        "blow": blow.key,
        "title": blow.title,
        "detail": blow.detail,
        "at_s": round(blow.began - start, 2),
        "moments_s": [round(at - start, 2) for at in blow.moments],
        "seconds": round(blow.ended - blow.began, 2),
        "channels_before": blow.before,
        "channels_after": blow.after,
        "pings_sent": sum(between(one["asked"], blow) for one in pings),
        "pings_lost": sum(between(one["unanswered"], blow) for one in pings),
        "channels_cut": len(cut),
        "channels_opened": ha_watch.opened(watch.replicas.rows(), blow.began, blow.ended),
        "away_at_end": sum(end is None or end >= blow.ended for _, end in cut),
        "again_s": after_moment(cut, blow),
        "longest_without_channel_s": longest(cut, blow),
        "changes_sent": len(asked),
        "changes_refused": sum(request["status"] is not None for request in failed),
        "changes_without_answer": sum(request["status"] is None for request in failed),
        "changes_none_for_s": gap(requests, blow),
        "rename_acknowledged_s": round(blow.acknowledged - blow.moments[0], 3),
        "rename_failed": blow.refused,
        "rename_everywhere_s": round(blow.known - blow.moments[0], 3),
    }


def outages(watch, start):
    """Returns each time without a control channel as {"node", "from_s", "to_s"}."""
    rows = [(node.node.name, at, end) for node in watch.nodes for at, end in node.outages(start, float("inf"))]
    return [{"node": name, "from_s": round(at - start, 2), "to_s": end and round(end - start, 2)} for name, at, end in rows]


def between(times, blow):
    return sum(blow.began <= at < blow.ended for at in times)


def after_moment(cut, blow):
    """Returns the longest time from a disturbance to the end of an outage that it caused; None without outages."""
    took = [(end or blow.ended) - max([at for at in blow.moments if at <= began] or blow.moments[:1]) for began, end in cut]
    return round(max(took), 2) if took else None


def longest(cut, blow):
    return round(max((end or blow.ended) - began for began, end in cut), 2) if cut else None


def gap(requests, blow):
    """Returns the longest time between two changes in a row that were acknowledged, around the blow."""
    times = sorted(request["ended"] for request in requests if acknowledged(request))
    gaps = [later - earlier for earlier, later in zip(times, times[1:]) if later > blow.began and earlier < blow.ended]
    return round(max(gaps), 2) if gaps else None


def verdicts(result):
    """Returns what must hold, as {"what", "held"}. Times are no verdicts: they depend on the machine."""
    database = result["database"]
    whole = [
        ("no ping between nodes was lost", result["pings_lost"] == 0),
        ("no TCP connection between nodes broke", all(flow["equal"] for flow in result["flows"])),
        ("every node had a channel again after each blow", all(row["away_at_end"] == 0 for row in result["blows"])),
        ("each acknowledged change is in the database", database["missing"] == 0),
        ("no change was made twice", database["twice"] == 0),
        ("no change was made that was answered with a refusal", database["refused_but_made"] == 0),
        ("all nodes have the same members as the database", result["maps_differing"] == 0),
    ]
    return [{"what": what, "held": held} for what, held in whole]


def targets(result):
    """Returns the times that are aimed at, as {"what", "seconds", "reach_s", "aim_s"}."""
    killed = next((row for row in result["blows"] if row["blow"] == "replica-killed"), None)
    took = killed and killed["again_s"]
    return [{"what": "all nodes have a channel again after one replica was killed", "seconds": took, "reach_s": REACH_S, "aim_s": AIM_S}]


def cells(row):
    """Returns the cells of one blow, in the order of HEADS."""
    failed = row["changes_refused"] + row["changes_without_answer"]
    return (
        row["title"],
        f"{row['pings_lost']} of {row['pings_sent']:,}",
        str(row["channels_cut"]),
        seconds(row["again_s"]),
        seconds(row["longest_without_channel_s"]),
        f"{failed} of {row['changes_sent']}",
        seconds(row["changes_none_for_s"]),
        seconds(row["rename_everywhere_s"]),
    )


def seconds(value):
    return "–" if value is None else f"{value:.2f} s" if value < 10 else f"{value:.1f} s"


def text(result):
    """Returns the table and the verdicts for the terminal."""
    rows = [HEADS, *(cells(row) for row in result["blows"])]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADS))]
    lines = ["  ".join(cell.ljust(width) if number == 0 else cell.rjust(width) for number, (cell, width) in enumerate(zip(row, widths, strict=True))) for row in rows]
    lines += ["", *(f"{'yes' if one['held'] else 'NO ':3}  {one['what']}" for one in result["verdicts"])]
    for one in result["targets"]:
        lines.append(f"     {one['what']}: {seconds(one['seconds'])} (aim {one['aim_s']:.0f} s, at most {one['reach_s']:.0f} s)")
    return "\n".join(lines)


def table(result):
    """Returns the table in Markdown, and where it was measured."""
    lines = ["| " + " | ".join(HEADS) + " |", "|" + "---|" * len(HEADS)]
    rows = ["| " + " | ".join(cells(row)) + " |" for row in result["blows"]]
    where, database = result["machine"], result["database"]
    told = (
        f"{result['pings_sent']:,} pings in {result['seconds']:.0f} s, {result['pings_lost']} lost; {len(result['flows'])} TCP connections, "
        f"{sum(not flow['equal'] for flow in result['flows'])} broken; {database['acknowledged']:,} changes acknowledged, {database['missing']} missing in the database, {database['twice']} made twice."
    )
    measured = f"Measured {result['date']} on {where['cpu']}, {where['cores']} cores, Linux {where['kernel']}, all of it on this one machine; one run."
    return "\n".join([*lines, *rows, "", told, "", measured])
