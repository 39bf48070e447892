"""Checks a page: every plot needs units, legend, n, an interval and a sentence, in the drawing itself as well; the page must not load anything."""

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

from ...hosts.wait import LabError

# Properties of a plot on the page that its drawing must show too.
FACTS = ("units", "legend", "n", "interval")
# Least number of words in a sentence.
WORDS = 6
# Tags that would run or load something.
FORBIDDEN = ("script", "iframe", "object", "embed", "link", "base")
FETCHING = ("src", "srcset", "data", "poster", "background")


@dataclass
class Drawn:
    """One plot of the page."""

    facts: dict
    drawing: list = field(default_factory=list)
    sentence: list = field(default_factory=list)

    @property
    def name(self):
        return self.facts.get("name") or "a plot without a name"


class Reader(HTMLParser):
    """Collects plots, tables and forbidden elements of a page."""

    def __init__(self):
        super().__init__()
        self.plots, self.tables, self.strange = [], 0, []
        self._plot, self._drawing, self._sentence = None, False, False

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self._outside(tag, attributes)
        if tag == "figure" and "plot" in (attributes.get("class") or "").split():
            self._plot = Drawn({key.removeprefix("data-"): value or "" for key, value in attributes.items() if key.startswith("data-")})
            self.plots.append(self._plot)
        self._drawing = self._drawing or tag == "svg"
        self._sentence = self._sentence or "reading" in (attributes.get("class") or "").split()
        self.tables += tag == "table"

    def handle_startendtag(self, tag, attrs):
        self._outside(tag, dict(attrs))

    def handle_endtag(self, tag):
        self._drawing = self._drawing and tag != "svg"
        self._sentence = self._sentence and tag != "p"
        if tag == "figure":
            self._plot = None

    def handle_data(self, data):
        if self._plot and self._drawing:
            self._plot.drawing.append(data)
        elif self._plot and self._sentence:
            self._plot.sentence.append(data)

    def _outside(self, tag, attributes):
        if tag in FORBIDDEN:
            self.strange.append(f"the page has a <{tag}>")
        fetched = [attributes[key] for key in FETCHING if attributes.get(key)] + ([attributes["xlink:href"]] if tag in ("image", "use") and attributes.get("xlink:href") else [])
        self.strange += [f"the page fetches {where[:60]}" for where in fetched if not where.startswith(("#", "data:"))]


def lacks(path):
    """Returns a sentence for each missing property."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise LabError(f"{path} cannot be read ({error.strerror}): `python3 -m lab report` makes it from target/bench/results.json") from None
    reader = Reader()
    reader.feed(text)
    found = list(dict.fromkeys(reader.strange))
    if re.search(r"@import|url\(\s*['\"]?https?:", text):
        found.append("the page's style fetches something")
    found += [] if reader.plots else ["the page has no plot"]
    found += [] if reader.tables else ["the page has no table"]
    for plot in reader.plots:
        found += [f"{plot.name}: {what}" for what in of(plot)]
        found += [f"{plot.name}: there is no {plot.name}.{kind} beside the page" for kind in ("svg", "png") if not (path.with_suffix("") / f"{plot.name}.{kind}").is_file()]
    return found


def of(plot):
    """Returns a sentence for each property that a plot lacks."""
    drawing = " ".join(" ".join(plot.drawing).split())
    found = [f"does not say its {fact}" for fact in FACTS if not plot.facts.get(fact, "").strip()]
    if not drawing:
        return [*found, "has no text in its drawing"]
    for fact in ("units", "legend"):
        parts = [part for part in plot.facts.get(fact, "").split("|") if part]
        found += [f"its drawing does not show the {fact}: {part}" for part in parts if part not in drawing]
    if not re.search(rf"\bn = {re.escape(plot.facts.get('n', ''))}\b", drawing):
        found.append("its drawing does not show n")
    if plot.facts.get("n", "0") == "0":
        found.append("is of no round at all")
    if plot.facts.get("interval", "") not in drawing:
        found.append("its drawing does not show the interval")
    sentence = "".join(plot.sentence).strip()
    if len(sentence.split()) < WORDS or not sentence.endswith(".") or not re.search(r"\d", sentence):
        found.append("has no sentence of reading that its figures made")
    return found
