#!/usr/bin/env python3
"""Checks that what the documents and the code say of each other is there, so that a map never leads astray.

    tools/links.py [ROOT]

- Every path and every symbol that ARCHITECTURE.md names exists; so does every path that the other documents link to.
- What comments cite exists: `law 6` in ARCHITECTURE.md, `protocol.md 2.1` and `fault K1` in docs/spec/, every other `NAME.md`.
"""

import re
import sys
from pathlib import Path

FOLDERS = r"(?:core|sys|engine|apps|proof|lab|tools|docs)"
# Names that ARCHITECTURE.md uses and that are not ours.
FOREIGN = {"Arc", "ChaCha20Poly1305", "Debug", "Duration"}
DEFINED = re.compile(r"\b(?:fn|const|static|struct|enum|trait|type|mod)\s+(\w+)|^\s+([A-Z]\w+)\s*(?:[,({]|$)|^\s*(?:pub )?(\w+): ", re.M)
DEFINED_IN_PYTHON = re.compile(r"^\s*(?:class|def)\s+(\w+)", re.M)


def sources(root):
    for folder in ("core", "sys", "engine", "apps", "proof", "lab"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".rs", ".py", ".sql", ".toml"):
                yield path, path.read_text()


def check_map(root, complain):
    """ARCHITECTURE.md: paths and symbols."""
    text = (root / "ARCHITECTURE.md").read_text()
    defined = {name for path, code in sources(root) if path.suffix == ".rs" for match in DEFINED.findall(code) for name in match}
    defined |= {name for path, code in sources(root) if path.suffix == ".py" for name in DEFINED_IN_PYTHON.findall(code)}
    for path in sorted(set(re.findall(rf"\b{FOLDERS}/[\w./*-]*[\w*]", text))):
        if "NAME" not in path and not any(root.glob(path)):
            complain("ARCHITECTURE.md", f"there is no {path}")
    symbols = set(re.findall(r"\b\w+::(\w+)", text)) | set(re.findall(r"\b([A-Z]\w+)::", text))
    symbols |= set(re.findall(r"`([A-Z]\w*[a-z]\w*)`", text))
    for symbol in sorted(symbols - defined - FOREIGN):
        complain("ARCHITECTURE.md", f"there is no symbol {symbol} in the code")


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
    for check in (check_map, check_documents, check_citations):
        check(root, lambda where, what: found.append(f"{where}: {what}"))
    for line in dict.fromkeys(found):
        print(line, file=sys.stderr)
    print(f"links: {len(found)} lead nowhere")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
