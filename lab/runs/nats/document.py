"""The tables and the picture of docs/nats.md, made from the list of kinds and the verdicts.

    python3 -m lab.runs.nats.document    writes the parts between the marks in docs/nats.md, and docs/nats.svg
"""

import json

from ...hosts.nats.kinds import KINDS, PLACES, VERDICTS
from ...hosts.programs import ROOT
from . import picture

PAGE, PICTURE = ROOT / "docs" / "nats.md", ROOT / "docs" / "nats.svg"
BEGIN, END = "<!-- made by lab.runs.nats.document: {} -->", "<!-- end -->"
_SHORT = {"none": "–", "endpoint-independent": "EI", "address-dependent": "AD", "address-and-port-dependent": "APD"}
WORDS = {
    "direct": "direct: must be possible, always and soon",
    "guess": "guess: possible by predicting a port, or with many sockets at random; otherwise the relay",
    "relay": "relay: no direct path",
}


def main():
    verdicts = json.loads(VERDICTS.read_text())["pairs"]
    PAGE.write_text(filled(PAGE.read_text(), verdicts))
    PICTURE.write_text(drawn(verdicts))


def filled(text, verdicts):
    """Returns the page with new tables."""
    for name, table in (("kinds", _kinds()), ("pairs", _pairs(verdicts)), ("together", _together(verdicts))):
        begin = BEGIN.format(name)
        before, _, rest = text.partition(begin)
        text = f"{before}{begin}\n{table}\n{END}{rest.partition(END)[2]}"
    return text


def drawn(verdicts):
    """Returns docs/nats.svg."""
    return picture.svg(_apart(verdicts), "Two hosts in different networks: what they can reach", WORDS)


def _apart(verdicts):
    return {(pair["a"], pair["b"]): (pair["reach"], "", pair["why"]) for pair in verdicts if pair["place"] == "apart"}


def _kinds():
    rows = ["| name | mapping | filtering | also | as people know it |", "|---|---|---|---|---|"]
    for kind in KINDS.values():
        also = [f"UDP forgotten after {kind.timeout_s} s"] if kind.timeout_s < 60 else []
        also += ["hairpin"] if kind.hairpin else []
        also += ["no UDP"] if not kind.udp else []
        also += ["no TCP but to port 443"] if not kind.tcp else []
        also += ["drops packets of all senders except servers"] if kind.one_way else []
        also += ["two NATs: at home and at the provider"] if kind.carrier else []
        also += ["ports counted up"] if kind.ports == "sequential" else []
        rows.append(f"| `{kind.name}` | {_SHORT[kind.mapping]} | {_SHORT[kind.filtering]} | {', '.join(also)} | {kind.words} |")
    return "\n".join(rows)


def _pairs(verdicts):
    cells, names = _apart(verdicts), list(KINDS)
    rows = [f"| | {' | '.join(str(number) for number in range(1, len(names) + 1))} |", f"|---|{'---|' * len(names)}"]
    letters = {"direct": "D", "guess": "g", "relay": "R"}
    for number, a in enumerate(names, 1):
        line = [letters[(cells.get((a, b)) or cells[b, a])[0]] for b in names]
        rows.append(f"| {number} `{a}` | {' | '.join(line)} |")
    return "\n".join(rows)


def _together(verdicts):
    rows = ["| where | kinds | reach | why |", "|---|---|---|---|"]
    groups = {}
    for pair in verdicts:
        if pair["place"] != "apart":
            groups.setdefault((pair["place"], pair["reach"], pair["why"]), []).append(f"`{pair['a']}`")
    for (place, reach, why), names in groups.items():
        shown = "every kind" if len(names) == len(KINDS) else ", ".join(names)
        rows.append(f"| {PLACES[place]} (`{place}`) | {shown} | {reach} | {why} |")
    return "\n".join(rows)


if __name__ == "__main__":
    main()
