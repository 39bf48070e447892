"""Finds import circles between sibling modules of a crate, for arrows.py.

Siblings are the child modules of one module. A sibling imports another one if any file below it names an item of any file below the other
one, by `use` or by a path that begins with `crate`, `self` or `super`. An item that the parent re-exports counts as imported from the
child that has it. An item that the parent itself defines is no import between siblings. Code for tests is left out.
"""

import re

USE = re.compile(r"\b(?:pub(?:\s*\([^)]*\))?\s+)?use\s+([^;]+);")
PATH = re.compile(r"(?<![\w:])(?:crate|self|super)(?:::\w+)+")
CHILD = re.compile(r"(?P<attributes>(?:#\[[^\]]*\]\s*)*)(?:pub(?:\s*\([^)]*\))?\s+)?mod\s+(?P<name>\w+)\s*;")


class Module:
    """A module with a file of its own: its path from the crate's root, its code, its children and the names that it imports."""

    def __init__(self, path, code, children):
        self.path, self.children = path, children
        self.uses = [use for match in USE.finditer(code) for use in leaves(match[1])]
        self.inline = [match[0].split("::") for match in PATH.finditer(USE.sub(lambda use: re.sub(r"[^\n]", " ", use[0]), code))]


def leaves(tree, before=()):
    """All (path, name in scope) of a tree of `use`, such as `a::{b, c::{self, d as e}}`."""
    tree = tree.strip()
    head, brace, rest = tree.partition("{")
    if brace:
        inner = rest.rsplit("}", 1)[0]
        path = before + tuple(part.strip() for part in head.split("::") if part.strip())
        for branch in split(inner):
            yield from leaves(branch, path)
        return
    target, _, alias = (part.strip() for part in tree.partition(" as "))
    parts = tuple(part.strip() for part in target.split("::") if part.strip())
    path = before + parts
    if before and parts == ("self",):
        path = before
    if path:
        yield path, alias or path[-1]


def split(text):
    """The branches of a `{…}` of `use`: split at the commas outside of inner braces."""
    depth, start = 0, 0
    for at, letter in enumerate(text):
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            yield text[start:at]
            start = at + 1
    if text[start:].strip():
        yield text[start:]


def modules(root, code_of):
    """All modules of a crate by their path, from the file `root`; `code_of` returns a file's code without comments, texts and tests."""
    found = {}

    def visit(file, path, folder):
        code = code_of(file)
        children = {}
        for match in CHILD.finditer(code):
            if re.search(r"cfg\(\s*(?:any\([^)]*)?test\b", match["attributes"]):
                continue
            name = match["name"]
            for child, below in ((folder / f"{name}.rs", folder / name), (folder / name / "mod.rs", folder / name)):
                if child.exists():
                    children[name] = (child, below)
        found[path] = Module(path, code, set(children))
        for name, (child, below) in children.items():
            visit(child, (*path, name), below)

    visit(root, (), root.parent)
    return found


def resolve(found, module, path, seen=()):
    """The module that `path`, named in `module`, leads to; re-exports are followed."""
    at, parts = list(module), list(path)
    if parts[0] == "crate":
        at, parts = [], parts[1:]
    elif parts[0] not in ("self", "super") and parts[0] not in found[module].children:
        return None
    while parts and parts[0] in ("self", "super"):
        if parts[0] == "super" and at:
            at.pop()
        parts = parts[1:]
    while parts and parts[0] in found[tuple(at)].children:
        at.append(parts[0])
        parts = parts[1:]
    here = tuple(at)
    if parts and (here, parts[0]) not in seen:
        for use, name in found[here].uses:
            if name == parts[0]:
                onward = resolve(found, here, use, (*seen, (here, parts[0])))
                if onward is not None:
                    return onward
    return here


def imports(found):
    """The imports between siblings: {parent: {child: {other child}}}."""
    drawn = {}
    for path, module in found.items():
        for use in [use for use, _ in module.uses] + module.inline:
            target = resolve(found, path, use)
            if target is None:
                continue
            shared = 0
            while shared < min(len(path), len(target)) and path[shared] == target[shared]:
                shared += 1
            if shared < len(path) and shared < len(target):
                drawn.setdefault(path[:shared], {}).setdefault(path[shared], set()).add(target[shared])
    return drawn


def circles(found):
    """The circles: for each parent, the sets of siblings that all reach each other by imports."""
    for parent, edges in sorted(imports(found).items()):
        reach = {}
        for start in edges:
            seen, todo = set(), [start]
            while todo:
                for other in edges.get(todo.pop(), ()):
                    if other not in seen:
                        seen.add(other)
                        todo.append(other)
            reach[start] = seen
        told = set()
        for start in sorted(edges):
            if start in reach[start] and start not in told:
                circle = {other for other in reach[start] if start in reach.get(other, ())}
                told |= circle
                yield parent, sorted(circle)
