"""The page: one self-contained file of HTML without scripts; the plots are also next to it as SVG and PNG."""

import datetime
import html
import shutil

from ..plan import BARE, MAIN_PROFILES, PACKETS, PING, STREAM
from ..summary import RESAMPLES, Results
from . import captions
from .formatting import INTERVAL, NONE, bounds, counted, listed, number

LOOK = """
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, "DejaVu Sans", Verdana, sans-serif; color: #222; background: #fff; margin: 0 auto; max-width: 1180px; padding: 1.5rem; }
h1 { font-size: 1.7rem; margin: 0 0 .3rem; } h2 { font-size: 1.25rem; margin: 2.4rem 0 .5rem; border-bottom: 2px solid #0050b5; padding-bottom: .15rem; }
h3 { font-size: 1.02rem; margin: 1.5rem 0 .3rem; } p, li { max-width: 62rem; } small, .small { font-size: .8rem; color: #555; }
.label { background: #fff3cd; border-left: 4px solid #e69f00; padding: .5rem .9rem; margin: .8rem 0; }
figure { margin: 1.2rem 0 2rem; } figure svg { max-width: 100%; height: auto; display: block; } figcaption { font-size: 1rem; margin-top: .3rem; max-width: 62rem; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: .83rem; font-variant-numeric: tabular-nums; margin: .4rem 0 1rem; }
th, td { padding: .22rem .55rem; text-align: right; border-bottom: 1px solid #e4e4e4; vertical-align: top; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; position: sticky; left: 0; background: #fff; } thead th { border-bottom: 2px solid #999; vertical-align: bottom; white-space: normal; max-width: 9rem; }
td span { display: block; font-size: .72rem; color: #666; } td.best { background: #e3edfa; font-weight: 600; } td.best span { font-weight: 400; } td.bad { color: #a3301a; }
td.words { text-align: left; white-space: normal; max-width: 46rem; } table.list th { text-align: left; } tr.bare td { color: #555; background: #f6f6f6; } nav a { margin-right: .9rem; }
@media print { h2 { break-before: auto; } figure, table { break-inside: avoid; } }
"""
DISTURBED = "†"
# Kinds of work in a table: what fits the width of the page.
ACROSS = 9


def write(results_json, path):
    """Makes the page and the plots of a file of results; returns the size of the page. Raises a `LabError` without matplotlib."""
    from . import plots as drawings

    results = Results(results_json)
    drawn = drawings.draw(results)
    beside = path.with_suffix("")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    bodies = {}
    for plot in drawn:
        bodies[plot.name] = plot.svg()
        (beside / f"{plot.name}.svg").write_text(f'<?xml version="1.0" encoding="utf-8"?>\n{bodies[plot.name]}', encoding="utf-8")
        (beside / f"{plot.name}.png").write_bytes(plot.png())
    text = document(results, [figure(plot, bodies[plot.name], beside.name) for plot in drawn])
    path.write_text(text, encoding="utf-8")
    return path.stat().st_size


def document(results, figures):
    """Returns the whole page."""
    results_json = results.content
    title = f"Overlay networks compared{': ' + results_json['scenario'] if results_json['scenario'] else ''}"
    parts = [
        f"<h1>{text(title)}</h1>",
        label(results),
        '<nav class="small"><a href="#glance">At a glance</a><a href="#plots">Plots</a><a href="#tables">Tables</a><a href="#failures">Failures</a><a href="#method">Method and machine</a></nav>',
        '<h2 id="glance">At a glance</h2>',
        glance(results),
        '<h2 id="plots">Plots</h2>',
        *figures,
        '<h2 id="tables">Every link, every kind of work</h2>',
        f'<p class="small">{reading()}</p>',
        *tables(results),
        '<h2 id="failures">Left out, failed, doubtful</h2>',
        failures(results),
        '<h2 id="method">Method and machine</h2>',
        method(results),
    ]
    return f"""<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>{text(title)}</title><style>{LOOK}</style></head>
<body>
{chr(10).join(parts)}
</body>
</html>
"""


def text(words):
    return html.escape(str(words))


def figure(plot, svg, folder):
    """Returns a plot with the properties for the check, and its sentence."""
    facts = {"name": plot.name, "units": "|".join(plot.units), "legend": "|".join(plot.legend), "n": plot.n, "interval": plot.interval}
    attributes = " ".join(f'data-{key}="{text(value)}"' for key, value in facts.items())
    files = f'<span class="small">(<a href="{folder}/{plot.name}.svg">SVG</a>, <a href="{folder}/{plot.name}.png">PNG</a>)</span>'
    return f'<figure class="plot" id="{plot.name}" {attributes}>\n<h3>{text(plot.title)}</h3>\n{svg}\n<figcaption><p class="reading">{text(plot.sentence)}</p>{files}</figcaption>\n</figure>'


def label(results):
    """Returns time, machine and number of rounds, and a warning for quick runs."""
    results_json = results.content
    systems = [one for one in results_json["systems"].values() if not one["lacking"]]
    words = f"Made {results_json['made']} on {results_json['machine']['cpu']}, {counted(results_json['machine']['cores'], 'core')}, Linux {results_json['machine']['kernel']}: "
    words += f"{counted(len(systems), 'system')}, {counted(len(results.profiles()), 'link')}, {counted(len(results.all_works()), 'kind')} of work, {counted(len(results_json['runs']), 'run')}."
    parts = [f"<p>{text(words)}</p>"]
    if results_json["quick"]:
        whole = f"python3 -m lab scenario {results_json['scenario']}" if results_json["scenario"] else "make bench-full"
        parts.append(f'<p class="label"><b>Quick.</b> Short works and few rounds: figures to look at, not to cite. <code>{text(whole)}</code> makes those to cite.</p>')
    missed = [one for one in results_json["left_out"] if not one["optional"]]
    if missed:
        what = counted(len(missed), "visit of a system to a link", "visits of systems to links")
        parts.append(f'<p class="label"><b>Not all of it was done.</b> {what} are not here: <a href="#failures">which</a>. Their figures are of fewer rounds, or missing.</p>')
    if results_json["sittings"] > 1:
        parts.append(f'<p class="small">Made in {results_json["sittings"]} sittings.</p>')
    return "\n".join(parts)


def glance(results):
    """Returns a row per system: its stream on every main link, its round trip, its success."""
    series = results.main_series()
    links = [name for name in MAIN_PROFILES if name in results.profiles(STREAM)] or results.profiles(STREAM)[:4]
    columns = [(f"TCP, {name}, {results.works[STREAM]['unit']}", name, STREAM) for name in links] if STREAM in results.works else []
    if PING in results.works:
        columns += [(f"ping, {name}, {results.works[PING]['unit']}", name, PING) for name in links if name in results.profiles(PING)]
    if not columns:
        # A named set-up has its own works.
        there = [(profile, work) for profile in results.profiles(placement=series[0]) for work in results.all_works(profile)]
        columns = [(f"{results.works[work]['title']}, {profile}, {results.works[work]['unit']}", profile, work) for profile, work in there[:8]]
    best = {(profile, work): captions.winner(results, profile, work, series) for _, profile, work in columns}
    rows = []
    for name in results.systems():
        cells = [cell(results, profile, name, work, series, best[profile, work], brief=True) for _, profile, work in columns]
        good, tried = results.success(name)
        rows.append(_row(results, name, [*cells, f"<td>{good} of {tried}</td>"]))
    return table(["", *(head for head, _, _ in columns), "runs done"], rows)


def tables(results):
    """Yields a table per link and series, with a row per system and a column per work."""
    for series in results.series():
        for profile in results.profiles(placement=series[0]):
            works = [work for work in results.all_works(profile) if any(results.rows(profile, name, work, *series) for name in results.systems(profile, work))]
            if works:
                yield _table_of(results, profile, works, series)


def _table_of(results, profile, works, series):
    about = results.content["profiles"][profile]
    which = captions.named_series(series) if series != (PACKETS, False, None) else ""
    title = f"{profile}: {about['title']}{' (' + which + ')' if which else ''}"
    ways = {"both ways": about["link"]["right"]} if len(set(about["link"].values())) == 1 and len(about["link"]) == 2 else about["link"]
    parts = "\n".join(_part(results, profile, works[start : start + ACROSS], series) for start in range(0, len(works), ACROSS))
    link = "; ".join(f"{direction}: {words}" for direction, words in ways.items()) or "plain veth, no emulator"
    return f'<h3>{text(title)}</h3>\n<p class="small">{text(about["about"])} — {text(link)}; MTU {about["mtu"]:,}</p>\n{parts}'


def _part(results, profile, works, series):
    """Returns the columns of these works, with a row per system that did one of them."""
    systems = [name for name in results.systems(profile) if any(results.rows(profile, name, work, *series) for work in works)]
    best = {work: captions.winner(results, profile, work, series) for work in works}
    head = ["", *(f"{results.works[work]['title']}, {results.works[work]['unit']}".rstrip(", ") for work in works)]
    return table(head, [_row(results, name, [cell(results, profile, name, work, series, best[work]) for work in works]) for name in systems])


def _row(results, name, cells):
    kind = ' class="bare"' if name == BARE else ""
    return f"<tr{kind}><td>{text(results.content['systems'][name]['title'])}</td>{''.join(cells)}</tr>"


def cell(results, profile, name, work, series, best, brief=False):
    """Returns median, interval and n, and the number of failures. `brief`: without n, which the tables below contain."""
    rows = results.rows(profile, name, work, *series)
    one = results.figure(profile, name, work, None, *series)
    failed = sum(not row["ok"] for row in rows)
    if not rows:
        return f"<td>{NONE}</td>"
    if not one:
        return f'<td class="bad">failed<span>{failed} of {len(rows)}</span></td>'
    results_json = "n = 1" if one.n == 1 else bounds(one) if brief else f"{bounds(one)}; n = {one.n}"
    results_json += f"; {failed} failed" if failed else ""
    kind = ' class="best"' if name == best else ""
    spread = f' title="least {number(one.least)}, most {number(one.most)}"' if one.n > 1 else ""
    return f"<td{kind}{spread}>{number(one.median)}{DISTURBED if one.doubtful else ''}<span>{text(results_json)}</span></td>"


def table(head, rows, kind=""):
    heads = "".join(f"<th>{text(words)}</th>" for words in head)
    return f'<div class="scroll"><table{kind}><thead><tr>{heads}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'


def reading():
    return (
        f"Median of the rounds; below it the {INTERVAL} of the median (bootstrap, {RESAMPLES:,} resamples, seeded; of two or three rounds it is little more than "
        f"their spread) and n, the number of rounds; the least and the most appear where the pointer rests on a cell. The best tunnel of a column is blue, unless another is equal; the bare link is no tunnel and not judged. {DISTURBED}: other programs disturbed every round."
    )


def failures(results):
    """Returns what is missing, and why."""
    lacking = [(one["title"], one["lacking"]) for kind in ("systems", "works") for one in results.content[kind].values() if one["lacking"]]
    parts = ["<h3>Left out</h3>", _listing(["what", "why"], lacking)] if lacking else []
    titles = {name: one["title"] for name, one in results.content["works"].items()}
    failed = [(results.content["systems"][name]["title"], profile, titles[work], why, times) for name, profile, work, why, times in results.errors()]
    parts += ["<h3>Failed</h3>", _listing(["system", "link", "work", "why", "times"], failed)] if failed else ["<p>No run failed.</p>"]
    parts += not_done(results)
    lost, every = results.disturbed()
    parts.append(f"<p>{lost} of {every} runs were disturbed by other programs on the machine; a figure leaves them out while there is an undisturbed one.</p>")
    stolen = results.stolen()
    if stolen:
        shares = f"{number(stolen.median)} % of the processor in the median run and {number(stolen.most)} % in the worst"
        parts.append(f"<p>This is a virtual machine, and its host gave others {shares}: figures are of what was left, and all systems had their turns in it.</p>")
    doubts = [(words, ", ".join(links), runs) for words, links, runs in results.doubts()]
    if doubts:
        parts += ["<h3>What the emulator of the link doubts</h3>", _listing(["doubt", "links", "runs"], doubts)]
    return "\n".join(parts)


def not_done(results):
    """Returns planned visits without results; systems with the same lack together."""
    results_json, lacks = results.content, {}
    for one in results_json["left_out"]:
        works = listed(results_json["works"][name]["title"] for name in one["works"])
        which = captions.named_series((one["placement"], one["tuned"], one["mtu"])) if (one["placement"], one["tuned"], one["mtu"]) != (PACKETS, False, None) else ""
        where = f"{one['profile']}{', ' + which if which else ''}"
        when = f"{one['round']}{' (only if there was time)' if one['optional'] else ''}"
        lacks.setdefault((when, where, works), []).append(results_json["systems"][one["system"]]["title"])
    if not lacks:
        return []
    rows = [(*place, listed(systems)) for place, systems in sorted(lacks.items())]
    return ["<h3>Not done</h3>", "<p>The time was over, or somebody interrupted; <code>--resume</code> goes on.</p>", _listing(["round", "link", "work", "systems"], rows)]


def _listing(head, rows):
    body = [f"<tr>{''.join(f'<td class=words>{text(part)}</td>' for part in row)}</tr>" for row in rows]
    return table(head, body, ' class="list"')


def method(results):
    """Returns the method, the machine and the versions."""
    results_json = results.content
    versions = [(one["title"], one["version"]) for one in results_json["systems"].values() if not one["lacking"]]
    facts = [(key.replace("_", " "), listed(map(str, value)) if isinstance(value, list) else value) for key, value in results_json["machine"].items()]
    parts = [f"<p>{text(words)}</p>" for words in _done(results_json)]
    parts += ["<h3>Versions</h3>", _listing(["system", "version"], versions), "<h3>Machine</h3>", _listing(["fact", "is"], facts)]
    parts += ["<h3>Offloads of the hosts' interfaces</h3>", _listing(["link, placement", "switches"], sorted(results_json["offloads"].items()))]
    parts.append(f'<p class="small">Page made {datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC.</p>')
    return "\n".join(parts)


def _done(results_json):
    """Yields the method in a few sentences; docs/bench.md has all of it."""
    yield (
        f"Systems are interleaved: each round has every system on every link, shuffled by seed {results_json['seed']}, and the bare link is in every round. Each system "
        "is started anew, in hosts made anew, for every visit to a link, and all systems of a round meet the same dice of the link. A system that fails stops no "
        f"other, and failures are listed. TCP uses {results_json['congestion_control']} in all hosts."
    )
    if results_json["quick"] and results_json["chosen"]:
        yield (
            "Work beside ping and one TCP stream was done by the bare link, Taut and the two others that carried most in the first round "
            f"({listed(results_json['systems'][name]['title'] for name in results_json['chosen'])})."
        )
    yield "docs/bench.md of the project tells each key of the results, and how to get them on another machine."
