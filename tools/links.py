#!/usr/bin/env python3
"""Checks that what the documents and the code say of each other is there, so that a map never leads astray.

    tools/links.py [ROOT]

- Every path and every symbol that ARCHITECTURE.md and docs/internals name exists, functions in lower case included, and a member belongs to its type;
  so does every path that the other documents link to.
- What comments cite exists: `law 6` in ARCHITECTURE.md, `protocol.md 2.1` and `fault K1` in docs/spec/, every other `NAME.md`.
"""

import re
import sys
from pathlib import Path

FOLDERS = r"(?:core|sys|engine|apps|proof|lab|tools|docs|dist)"
# Names that the maps use and that are not ours.
FOREIGN = {"Arc", "ChaCha20Poly1305", "Debug", "Duration"}
# Words of the maps in lower case that are no symbol of ours: crates, programs, file names, verbs of the kernel.
WORDS = {"async", "iperf3", "libc", "ring", "serde", "taut", "unsafe", "wg"}
DEFINED = re.compile(r"\b(?:fn|const|static|struct|enum|trait|type|mod)\s+(\w+)|^\s+([A-Z]\w+)\s*(?:[,({]|$)|^\s*(?:pub(?:\([a-z]+\))? )?(\w+): ", re.M)
DEFINED_IN_PYTHON = re.compile(r"^\s*(?:class|def)\s+(\w+)", re.M)
# Where the members of a type or a module are: its definition, and every `impl` of it or for it.
OWNER = re.compile(r"\b(?:struct|enum|trait|mod)\s+(\w+)|\bimpl\b(?:<[^{]*?>)?\s+(?:[\w:]+(?:<[^{]*?>)?\s+for\s+)?(?:\w+::)*(\w+)")


def sources(root):
    for folder in ("core", "sys", "engine", "apps", "proof", "lab"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".rs", ".py", ".sql", ".toml"):
                yield path, path.read_text()


def maps(root):
    """The documents that name files and symbols of the code."""
    return [root / "ARCHITECTURE.md", *sorted((root / "docs/internals").glob("*.md"))]


def definitions(root):
    """All symbols; and by the name of a type or module, the symbols of the files that define or implement it."""
    defined, members = set(), {}
    for path, code in sources(root):
        if path.suffix == ".rs":
            here = {name for match in DEFINED.findall(code) for name in match if name}
            owners = {name for match in OWNER.findall(code) for name in match if name} | {path.stem}
            for owner in owners:
                members.setdefault(owner, set()).update(here)
        else:
            here = set(DEFINED_IN_PYTHON.findall(code))
            for owner in here:
                members.setdefault(owner, set()).update(here)
        defined |= here
    return defined, members


def check_maps(root, complain):
    """Paths and symbols that the maps name; functions in lower case, too."""
    defined, members = definitions(root)
    for document in maps(root):
        where, text = document.relative_to(root), document.read_text()
        for path in sorted(set(re.findall(rf"(?<![\w/.(]){FOLDERS}/[\w./*-]*[\w*]", text))):
            if "NAME" not in path and not any(root.glob(path)):
                complain(where, f"there is no {path}")
        text = re.sub(r"\]\([^)]*\)", "]", text)
        for owner, member in sorted(set(re.findall(r"\b(\w+)::(\w+)", text))):
            if owner not in members:
                complain(where, f"there is no type or module {owner} in the code")
            elif member not in members[owner]:
                complain(where, f"there is no {owner}::{member} in the code")
        symbols = set(re.findall(r"`([A-Z]\w*[a-z]\w*)`", text))
        # `snake_case` anywhere outside of paths and file names, and one word in backquotes.
        symbols |= set(re.findall(r"(?<![\w/.:-])([a-z]+(?:_[a-z0-9]+)+)(?![\w/.-])", text)) | set(re.findall(r"`([a-z]+)`", text)) - WORDS
        for symbol in sorted(symbols - defined - FOREIGN - modules(root)):
            complain(where, f"there is no symbol {symbol} in the code")


def modules(root):
    """Names of crates, folders and files, which are modules, too; and words that programs understand."""
    names = {path.stem for path, _ in sources(root)} | {path.parent.name for path, _ in sources(root)}
    words = (root / "apps/taut/src/verb.rs").read_text() if (root / "apps/taut/src/verb.rs").exists() else ""
    return names | set(re.findall(r'name: "([\w-]+)"', words))


def check_documents(root, complain):
    """Relative links of all documents."""
    for document in [*root.glob("*.md"), *root.glob("docs/**/*.md"), *root.glob("lab/*.md")]:
        for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", document.read_text()):
            if not (document.parent / target).exists():
                complain(document.relative_to(root), f"links to {target}, which is not there")


def check_citations(root, complain):
    """What comments cite."""
    laws = set(re.findall(r"^\| (\d+) \|", (root / "ARCHITECTURE.md").read_text(), re.M))
    faults = set(re.findall(r"^\| ([A-P]\d+) \|", (root / "docs/spec/faults.md").read_text(), re.M))
    sections = set(section_numbers((root / "docs/spec/protocol.md").read_text()))
    documents = {path.name for path in [*root.glob("*.md"), *root.glob("docs/**/*.md"), *root.glob("lab/*.md")]}
    for path, text in [*sources(root), (root / "Cargo.toml", (root / "Cargo.toml").read_text())]:
        where = path.relative_to(root)
        for name, number in re.findall(r"\b([a-zA-Z]+(?:-[a-zA-Z]+)*\.md)(?: (\d+(?:\.\d+)?))?", text):
            if name not in documents:
                complain(where, f"cites {name}, which is not in this repository")
            elif name == "protocol.md" and number and number not in sections:
                complain(where, f"cites protocol.md {number}, which is not there")
        for law in re.findall(r"\blaw (\d+)", text):
            if law not in laws:
                complain(where, f"cites law {law}, which ARCHITECTURE.md does not have")
        for fault in re.findall(r"\bfaults? ([A-P]\d+)\b|\bfault_([a-p]\d+)_", text):
            name = "".join(fault).upper()
            if name not in faults:
                complain(where, f"cites fault {name}, which docs/spec/faults.md does not have")


def section_numbers(text):
    """`## 2. …` gives 2, and `3. …` below it 2.3."""
    section = "0"
    for line in text.splitlines():
        if heading := re.match(r"## (\d+)\.", line):
            section = heading[1]
            yield section
        elif item := re.match(r"(\d+)\. ", line):
            yield f"{section}.{item[1]}"


def main():
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    found = []
    for check in (check_maps, check_documents, check_citations):
        check(root, lambda where, what: found.append(f"{where}: {what}"))
    for line in dict.fromkeys(found):
        print(line, file=sys.stderr)
    print(f"links: {len(found)} lead nowhere")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
