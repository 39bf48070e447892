"""The blocks ```` ```console ```` of a page: what a reader types after `$` or `#`, and what the page says that it prints."""

import re
from dataclasses import dataclass, field

_BLOCK = re.compile(r"^( *)```console\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_SECTION = re.compile(r"^##+ (.+)$", re.MULTILINE)


@dataclass
class Step:
    """A command of a page, in its section, and the lines that the page shows below it."""

    section: str
    command: str
    shown: list[str] = field(default_factory=list)

    def is_shown(self, output):
        """Returns true if the output has the lines of the page, in order. `…` in a line stands for any text."""
        lines = iter(output.splitlines())
        return all(any(re.fullmatch(_pattern(shown), line) for line in lines) for shown in self.shown if shown)


def steps(page):
    """Returns the commands of a page in order."""
    text = page.read_text()
    titles = [(match.start(), match[1]) for match in _SECTION.finditer(text)]
    found = []
    for block in _BLOCK.finditer(text):
        section = next((title for at, title in reversed(titles) if at < block.start()), "")
        for line in block[2].splitlines():
            line = line.removeprefix(block[1])
            if line.startswith(("$ ", "# ")):
                found.append(Step(section, line[2:]))
            else:
                assert found and found[-1].section == section, f"{page.name}: output without a command: {line}"
                found[-1].shown.append(line)
    assert len(_BLOCK.findall(text)) == len(re.findall(r"^\s*```+ *(?:console|shell|bash)\b", text, re.MULTILINE)), f"a block of {page.name} is not read by its test"
    return found


def fenced(page, kind):
    """Returns the texts of a page's blocks of one kind, without their indentation."""
    blocks = re.finditer(rf"^( *)```{kind}\n(.*?)^\1```$", page.read_text(), re.MULTILINE | re.DOTALL)
    return [re.sub(rf"^{block[1]}", "", block[2], flags=re.MULTILINE) for block in blocks]


def _pattern(line):
    return ".*".join(re.escape(part) for part in line.split("…"))
