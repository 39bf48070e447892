"""Documents whose commands are run by tests: the blocks of a page, and a shell that runs them."""

import re

# What every block starts with: the first command that fails ends it.
STRICT = "set -euo pipefail\n"
_BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def sections(page):
    """Returns the commands of a page as (title of the section, block) in order. The title of those above the first section is empty."""
    titles = ["", *re.findall(r"^## (.+)$", page.read_text(), re.MULTILINE)]
    texts = re.split(r"^## .+$", page.read_text(), flags=re.MULTILINE)
    found = [(title, block) for title, text in zip(titles, texts, strict=True) for block in _BLOCK.findall(text)]
    assert len(found) == len(re.findall(r"^\s*```+ *(?:ba)?sh\b", page.read_text(), re.MULTILINE)), f"a block of {page.name} is not read by its test"
    return found


def blocks(title, page):
    """Returns the commands at the start of the page, and those of a section."""
    found = sections(page)
    assert title in (section for section, _ in found), f"{page.name} has no commands in a section {title!r}"
    return [[block for section, block in found if section == wanted] for wanted in ("", title)]
