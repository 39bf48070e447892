"""One sentence per plot, computed from the results."""

import re

from ..plan import BARE, MAIN_PROFILES, PACKETS, PING, STREAM, SUPERPACKETS
from ..summary import cpu_per_gb, peak_mb
from . import theory
from .formatting import counted, listed, number, percent, whole

# Links that a sentence names individually.
NAMED = 4


def title(results, system):
    """Returns its title up to the first comma or bracket, if that is unique."""
    titles = {name: one["title"] for name, one in results.content["systems"].items()}
    short = {name: re.split(r", | \(", words)[0] for name, words in titles.items()}
    shared = list(short.values()).count(short[system]) > 1
    return titles[system] if shared else short[system]


def figures(results, profile, work, pick=None, series=None):
    """Returns {system: figure} of all systems that have one."""
    found = {name: results.figure(profile, name, work, pick, *(series or results.main_series())) for name in results.systems(profile, work)}
    return {name: one for name, one in found.items() if one}


def ranked(results, profile, work, bare=False, series=None):
    """Returns (system, figure), the best first; with the bare link only if asked for."""
    more = results.works[work]["better"] == "more"
    found = [pair for pair in figures(results, profile, work, series=series).items() if bare or pair[0] != BARE]
    return sorted(found, key=lambda pair: -pair[1].median if more else pair[1].median)


def winner(results, profile, work, series=None):
    """Returns the tunnel with the best median, or None without competitors or if the first two are equal."""
    order = ranked(results, profile, work, series=series)
    return order[0][0] if len(order) > 1 and order[0][1].median != order[1][1].median else None


def leader(results, profile, work):
    """Describes the best system: its figure, its share of the bare link, and whether it is clearly ahead."""
    order = ranked(results, profile, work)
    if not order:
        return None
    (name, best), unit = order[0], results.works[work]["unit"]
    words = [f"{number(best.median)} {unit}".strip()]
    share = _beside_bare(results, profile, work, best)
    words += [f"{percent(share)} of the bare link"] if share else []
    if len(order) > 1 and best.apart(order[1][1]) is False:
        words.append(f"not apart from {title(results, order[1][0])}")
    return f"{title(results, name)} on {profile} ({', '.join(words)})"


def _beside_bare(results, profile, work, figure):
    bare = results.figure(profile, BARE, work, None, *results.main_series())
    return figure.median / bare.median if bare and bare.median else None


def _links(results, work):
    """Returns the main links, and no more than a sentence can contain."""
    there = results.profiles(work, results.main_series()[0])
    return [name for name in MAIN_PROFILES if name in there] or there[:NAMED]


def stream(results, work=STREAM):
    """Returns a sentence: which system has the highest throughput, and how many systems reach the theoretical one."""
    best = [words for profile in _links(results, work) if (words := leader(results, profile, work))]
    if not best:
        return f"{results.works[work]['title']} succeeded for no tunnel on any of {counted(len(results.profiles(work)), 'link')}."
    text = f"Of the tunnels, one TCP stream carries most through {listed(best)}"
    on, of = near_theory(results, work)
    return text + (f"; of {of} figures on links where loss alone decides, {on} are within {percent(theory.NEAR)} of the theory's line." if of else ".")


def near_theory(results, work=STREAM):
    """Returns (figures within `theory.NEAR` of the line, figures) on links where the theory holds."""
    on = of = 0
    for profile in results.profiles(work):
        line = theory.mbps(results.content["profiles"][profile])
        if line and line[1]:
            shares = [one.median / line[0] for one in figures(results, profile, work).values()]
            on, of = on + sum(abs(share - 1) <= theory.NEAR for share in shares), of + len(shares)
    return on, of


def latency(results):
    """Returns a sentence: which system has the lowest latency, and whether it also has the highest throughput."""
    parts = []
    for profile in _links(results, PING):
        near, most = ranked(results, profile, PING), ranked(results, profile, STREAM)
        if near and most:
            same = "also carries most" if near[0][0] == most[0][0] else f"carries less than {title(results, most[0][0])}"
            parts.append(f"on {profile} {title(results, near[0][0])} is nearest ({number(near[0][1].median)} ms) and {same}")
    return f"Up and to the left is better: {'; '.join(parts)}." if parts else "No system has both a round trip and a stream on one of 0 links."


def heat(results, work):
    """Returns a sentence: on how many links each system is best, and on which link systems differ most."""
    profiles = [profile for profile in results.profiles(work) if ranked(results, profile, work)]
    if not profiles:
        return f"{results.works[work]['title']} succeeded for no tunnel on any of {counted(len(results.profiles(work)), 'link')}."
    wins, spans = {}, []
    for profile in profiles:
        first = winner(results, profile, work)
        wins |= {first: wins.get(first, 0) + 1} if first else {}
        ends = sorted(one.median for _, one in ranked(results, profile, work))
        spans.append((ends[-1] / ends[0] if ends[0] else 1.0, profile))
    name, count = max(wins.items(), key=lambda pair: pair[1], default=(None, 0))
    span, where = max(spans)
    links = counted(len(profiles), "link")
    first = f"{title(results, name)} has the best median of all tunnels on {count} of {links}" if name else f"No tunnel is ahead of another on any of {links}"
    return f"{first}; the tunnels differ most on {where}, by a factor of {number(span)}."


def scaling(results, profile, works):
    """Returns a sentence: which system gains most from several streams, and which gains least."""
    seen = []
    for work in works:
        for name, one in figures(results, profile, work).items():
            own = results.figure(profile, name, STREAM, None, *results.main_series())
            if own and own.median and name != BARE:
                seen.append((one.median / own.median, f"{title(results, name)} with {results.works[work]['title']}"))
    if not seen:
        return f"On {profile}, 0 tunnels have both one stream and several."
    (least, who), (most, other) = min(seen), max(seen)
    return f"Against its own single stream on {profile}, {other} gets most ({number(most)} times as much), and {who} least ({number(least)} times)."


def retention(results, links, base):
    """Returns a sentence: the share of its own speed, and of the bare link's, that each tunnel keeps on the links."""
    parts = []
    for profile in links:
        shares = {}
        for name, one in figures(results, profile, STREAM).items():
            own = results.figure(base, name, STREAM, None, *results.main_series())
            if own and own.median and name != BARE:
                shares[name] = one.median / own.median
        if shares:
            best = max(shares, key=shares.get)
            parts.append(f"{percent(shares[best])} on {profile} ({title(results, best)})")
    if not parts:
        return f"0 tunnels have a stream both on {base} and on another link."
    return f"Of its own speed on {base}, the tunnel that keeps most keeps {listed(parts)}; who is fast on {base} has more to lose, so the right side puts all beside the bare link."


def success(results, systems):
    """Returns a sentence: which systems always succeeded, and which one succeeded least often."""
    shares = {name: results.success(name) for name in systems}
    always = [name for name, (good, tried) in shares.items() if tried and good == tried]
    worst = min(systems, key=lambda name: shares[name][0] / shares[name][1] if shares[name][1] else 1.0)
    text = f"{len(always)} of {counted(len(systems), 'system')} succeeded in every run"
    good, tried = shares[worst]
    return f"{text}." if good == tried else f"{text}; {title(results, worst)} succeeded least, in {good} of {tried}."


def placement(results, links):
    """Returns a sentence: how the placement of losses changes the figures and the order."""
    changed, most = [], (1.0, None)
    for profile in links:
        by = {where: dict(ranked(results, profile, STREAM, True, (where, False, None))) for where in (PACKETS, SUPERPACKETS)}
        both = [name for name in by[PACKETS] if name in by[SUPERPACKETS]]
        orders = [[name for name in by[where] if name in both] for where in by]
        changed += [profile] if orders[0] != orders[1] else []
        for name in both:
            ratio = by[SUPERPACKETS][name].median / by[PACKETS][name].median if by[PACKETS][name].median else 1.0
            most = max(most, (ratio, f"{title(results, name)} on {profile}"), key=lambda pair: pair[0])
    order = f"the order of the systems changes on {listed(changed)}" if changed else "the order of the systems stays"
    gain = f"makes up to {number(most[0])} times as much of the same loss ({most[1]})" if most[1] else "gives nobody more"
    return f"Drawing for superpackets instead of wire packets, on {counted(len(links), 'link')}, {gain}, and {order}: a lead seen only there belongs to the rig."


def works(results, places):
    """Returns a sentence: in how many kinds of work each tunnel is best. `places`: (work, profile)."""
    judged = [(profile, work) for work, profile in places if len(ranked(results, profile, work)) > 1]
    wins = {}
    for name in (winner(results, profile, work) for profile, work in judged):
        wins |= {name: wins.get(name, 0) + 1} if name else {}
    if not judged:
        return f"0 of {counted(len(places), 'kind')} of work have more than one tunnel to compare."
    equal = len(judged) - sum(wins.values())
    parts = [f"{title(results, name)}'s in {count}" for name, count in sorted(wins.items(), key=lambda pair: -pair[1])]
    parts += [f"nobody's in {equal}, where the best are equal"] if equal else []
    return f"Of {counted(len(judged), 'kind')} of work that several tunnels did, the best median is {listed(parts)}."


def cost(results, profile):
    """Returns a sentence: which system uses the least CPU time, and which the least memory."""
    parts = []
    for pick, what, unit in ((cpu_per_gb, "processor time per GB", "s"), (peak_mb, "memory at its peak", "MB")):
        found = {name: one for name, one in figures(results, profile, STREAM, pick).items() if name != BARE}
        if found:
            name = min(found, key=lambda each: found[each].median)
            parts.append(f"least {what} is {title(results, name)}'s, {whole(found[name], unit)}")
    return f"On {profile}, {listed(parts)}." if parts else f"On {profile}, cost is known of 0 tunnels."


def series(results, profile, work, all_series):
    """Returns a sentence: which figure changes most with another MTU or with tuned hosts."""
    first, most = all_series[0], (1.0, None)
    for name in results.systems(profile, work):
        base = results.figure(profile, name, work, None, *first)
        for other in all_series[1:]:
            one = results.figure(profile, name, work, None, *other)
            if base and one and base.median and one.median and name != BARE:
                ratio = one.median / base.median
                most = max(most, (ratio, f"{title(results, name)}, {named_series(other)}"), key=lambda pair: max(pair[0], 1 / pair[0]))
    if not most[1]:
        return f"On {profile}, {counted(len(all_series), 'series', 'series')} of {results.works[work]['title']} differ for no tunnel."
    return f"On {profile}, {results.works[work]['title']} changes most for {most[1]}: {number(most[0])} times what it is with {named_series(first)}."


def named_series(series):
    """Returns a series in words."""
    where, tuned, mtu = series
    return ", ".join([f"MTU {mtu:,}" if mtu else "own MTU", "tuned hosts" if tuned else "usual hosts", *([where] if where != PACKETS else [])])
