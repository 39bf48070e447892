#!/usr/bin/env python3
"""Checks the architecture: which crate may depend on which, and which names may not appear where.

    tools/arrows.py [ROOT]      prints each violation with its file, the rule and the rule's reason; exit status 1 if there is one

Reads the Cargo.toml files, the sources under core/, sys/, engine/, apps/ and proof/, and the imports in lab/; runs nothing. The rules are the tables
below and the functions after them; ARCHITECTURE.md explains them. Its own tests: test_arrows.py.
"""

import ast
import re
import sys
import tomllib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import circles  # noqa: E402

# Layer -> layers that its crates may depend on (normal and build dependencies). Narrower rules follow below.
MAY_USE = {
    "core": {"core"},
    "sys": {"core"},
    "engine": {"core", "sys"},
    "apps": {"core", "engine", "sys"},
    "proof": {"core", "sys", "engine"},
}
# A dependency against the layers: a cipher is computation, as core wants it, and needs the unsafe instructions of a processor, as only sys may have them.
CORE_EDGES = {("core/noise", "sys/aegis")}
# The only crate of core that sys may use.
SYS_MAY_USE = {"core/base"}
# Dependencies inside engine: the agent owns the other crates, and those do not know each other. Control opens its channels and bridges with engine/dial, as a
# relay does.
ENGINE_EDGES = {("engine/agent", other) for other in ("engine/lane", "engine/control", "engine/gateway")} | {("engine/control", "engine/dial")}
# The test kit: helpers for the tests of every layer, core included. It may use one crate of ours and no external one.
TEST_KIT = "proof/testkit"
TEST_KIT_MAY_USE = {"core/base"}
# Dependencies inside proof: the fuzz targets run the simulator, and both draw their numbers from the test kit.
PROOF_EDGES = {("proof/fuzz", "proof/sim"), ("proof/fuzz", TEST_KIT), ("proof/sim", TEST_KIT)}
# Crates of sys and engine that a program may use.
APP_MAY_USE = {
    "apps/taut": {"engine/agent", "engine/lane", "engine/control", "sys/event", "sys/heap"},
    "apps/userspace": {"engine/netstack", "sys/event", "sys/sandbox"},
    "apps/coordinator": {"apps/relay"},
    "apps/relay": {"engine/dial", "sys/udp", "sys/event", "sys/sandbox"},
}
# A program that contains another: a coordinator can be a relay, too.
APP_EDGES = {("apps/coordinator", "apps/relay")}
# Packages whose names do not follow from their folders: the node is `taut`, and `taut-relay` is the crate with the relay's rules.
NAMES = {"apps/taut": "taut", "apps/relay": "taut-relay-server"}

# External crates that core may use: pure, small, reviewed. A new one needs a line here and a reason in the commit.
CORE_EXTERNALS = {"aws-lc-rs", "blake2", "ring", "serde", "subtle", "x25519-dalek", "zeroize"}
# What a derive is made of. It runs in the compiler alone.
DERIVE = ("core/json-derive", {"proc-macro2", "quote", "syn"})
# External crates that sys may use. dlmalloc is for the allocator alone (deny.toml).
SYS_EXTERNALS = {"dlmalloc", "libc"}
# Only this program has an asynchronous runtime, an HTTP server and a database.
COORDINATOR_ONLY = {"axum", "futures-util", "hyper", "hyper-util", "log", "rustls-native-certs", "sqlx", "tokio", "tokio-tungstenite", "tower", "tower-http", "ureq", "utoipa"}
# Likewise TOML: a node has a small reader of its own, which a fuzz target compares with this crate.
TOML = ("toml", {"apps/coordinator", "proof/fuzz"})
# External crates of the log of the two servers. The node has a log of its own, without these crates.
SERVER_LOG = {"tracing", "tracing-subscriber"}
SERVERS = {"apps/coordinator", "apps/relay"}
# The one exception: a load generator is an application, not a node, and its QUIC library runs on tokio. It uses no crate of ours.
LOAD = "proof/load"
LOAD_MAY_USE = {"tokio"}
# External crates that only the load generator may use.
LOAD_ONLY = {"quinn", "quinn-proto", "quinn-udp", "rcgen"}
# Crates of sys that exist for tests and for the lab.
SYS_FOR_WITNESSES = {"sys/attempts", "sys/namespace", "sys/packet", "sys/tally"}
# The TCP/IP stack is in one crate, and in one program besides: neither the daemon nor a server contains it.
STACK = ("smoltcp", "engine/netstack")
# Only programs read flags.
APPS_ONLY = {"lexopt"}

# Crates with import circles between sibling modules that are still to be removed. A crate without circles loses its line here.
CIRCLES_LEFT = set()
# The rooms of the lab, lowest first: a module imports from its own room and from those before it.
LAB_ROOMS = ("hosts", "measure", "traffic", "nodes", "compare", "runs")
# All Python files at the top of lab/: the command line and the fixtures, which use every room.
LAB_TOP = {"__init__.py", "__main__.py", "conftest.py"}

# Names of the outside world that may not appear in core, not even in its tests.
CORE_WORDS = {
    "a socket": r"\b(?:Tcp(?:Stream|Listener)|UdpSocket|Unix(?:Stream|Listener|Datagram))\b",
    "a clock": r"\b(?:Instant|SystemTime)\b",
    "files, processes, threads or the environment": r"\bstd::(?:\{[^;]*\b)?(?:fs|io|process|thread|env|os)\b",
    "a channel between threads": r"\bmpsc\b",
    "async": r"\basync\b|\.await\b",
    "the terminal": r"\be?print(?:ln)?!|\bdbg!",
}

WHY = {
    "layers": "arrows point downward only, so that a lower layer can be read, tested and used without the ones above",
    "sys-alone": "each crate of sys is usable alone; rules and kernel meet in engine only",
    "engine-edges": "the agent owns lane and control; these two never call each other, so neither waits for the other",
    "app-uses": "a program is wiring; the coordinator never uses the node's engine, and the node reaches the kernel only through the engine",
    "proof-unseen": "proof may use every layer, and no layer may use proof, so that no program depends on test code",
    "core-externals": "core is pure: no runtime, no socket, no clock; each external crate was checked for that",
    "core-pure": "in core, time, randomness and limits are arguments, so that all of it runs in the simulator",
    "sys-externals": "sys is small modules of our own over libc; a binary of 3 MB has no room for a second way",
    "coordinator-only": "the node has no async runtime, HTTP server or database: plain threads on epoll, 5 MB of memory",
    "toml": "the node reads the few lines of its file with a small reader of its own (core/base); a binary of 3 MB has no room for all of TOML",
    "servers-only": "the node records its events as data and renders them itself; a binary of 3 MB has no room for a second log",
    "load-alone": "it is the only crate of proof with a runtime: no crate of a node may share a program with one, nor measure itself",
    "load-only": "nodes speak one protocol, WireGuard; QUIC is only traffic that is carried through tunnels and measured",
    "testkit-alone": "tests of core use the test kit: a dependency of the kit would enter core's tests",
    "stack-alone": "the TCP/IP stack is a program of its own, so that the small daemon stays small and its keys are not beside it",
    "witness-hands": "raw frames, namespaces, attacks and a counting allocator are for tests and for the lab; a program needs none of them",
    "apps-only": "flags and environment are read in apps and passed down as values, so that every effect has one cause",
    "sqlx-in-store": "only apps/coordinator/src/store knows the database, so that another database can replace it",
    "unsafe": "unsafe code stands in sys only, small and tested against the kernel, so that the rest needs no audit for it",
    "circles": "modules that import each other can only be read and tested together; what both need moves into a third one",
    "member-comment": "the list of members is the first overview of the code: each crate has a comment there",
    "member-listed": "a crate that is not a member is neither built nor tested",
    "crate-name": "a folder under a layer is the crate taut-<name>, except for NAMES, so that the name tells the folder",
    "lab-rooms": "a room of the lab can be read and used without those above it: hosts without nodes, nodes without measurements",
    "lab-top": "a module at the top of lab/ belongs to no room, so no rule says which modules it may import",
    "lints": "without `[lints] workspace = true` the workspace's lints do not hold in this crate",
}


class House:
    """The workspace as its Cargo.toml files describe it, and the violations found in it."""

    def __init__(self, root):
        self.root = Path(root)
        self.text = (self.root / "Cargo.toml").read_text()
        workspace = tomllib.loads(self.text)["workspace"]
        self.members = workspace["members"]
        self.shared = workspace.get("dependencies", {})
        self.manifests = {path: tomllib.loads((self.root / path / "Cargo.toml").read_text()) for path in self.members}
        self.place = {manifest["package"]["name"]: path for path, manifest in self.manifests.items()}
        self.found = []

    def complain(self, rule, where, what):
        self.found.append((rule, str(where), what))

    def dependencies(self, member, kinds):
        """Yields the names of the packages in these tables, including those for one platform."""
        manifest = self.manifests[member]
        for scope in (manifest, *manifest.get("target", {}).values()):
            for kind in kinds:
                for key, value in scope.get(kind, {}).items():
                    value = self.shared.get(key, value) if is_shared(value) else value
                    yield value.get("package", key) if isinstance(value, dict) else key

    def sources(self, *layers):
        """Yields all Rust files of the layers: (path from the root, code without comments and strings)."""
        for layer in layers:
            for path in sorted((self.root / layer).rglob("*.rs")):
                yield path.relative_to(self.root), bare(path.read_text())


def is_shared(value):
    return isinstance(value, dict) and value.get("workspace") is True


def layer_of(path):
    return path.partition("/")[0]


# --- the rules -------------------------------------------------------------------------------------------------------


def check_members(house):
    for path in house.members:
        manifest = house.manifests[path]
        line = next((line for line in house.text.splitlines() if f'"{path}"' in line), "")
        if not re.search(r"#\s*\S", line):
            house.complain("member-comment", "Cargo.toml", f"member {path} has no comment")
        wanted = NAMES.get(path, f"taut-{Path(path).name}")
        if manifest["package"]["name"] != wanted:
            house.complain("crate-name", f"{path}/Cargo.toml", f"is named {manifest['package']['name']}, not {wanted}")
        if manifest.get("lints", {}).get("workspace") is not True:
            house.complain("lints", f"{path}/Cargo.toml", "does not take the workspace's lints")
    for layer in MAY_USE:
        for manifest in sorted((house.root / layer).glob("*/Cargo.toml")):
            path = manifest.parent.relative_to(house.root).as_posix()
            if path not in house.members:
                house.complain("member-listed", "Cargo.toml", f"{path} is not a member")


def check_arrows(house):
    for member in house.members:
        for name in house.dependencies(member, ("dependencies", "build-dependencies")):
            if name in house.place:
                check_arrow(house, member, house.place[name])
            else:
                check_external(house, member, name)
        for name in house.dependencies(member, ("dev-dependencies",)):
            if layer_of(member) == "core" and layer_of(house.place.get(name, "")) in ("sys", "engine", "apps"):
                house.complain("layers", f"{member}/Cargo.toml", f"tests of core use {house.place[name]}")


def check_arrow(house, member, target):
    where, what = f"{member}/Cargo.toml", f"{member} uses {target}"
    source, goal = layer_of(member), layer_of(target)
    if member == LOAD:
        house.complain("load-alone", where, what)
    elif member == TEST_KIT:
        if target not in TEST_KIT_MAY_USE:
            house.complain("testkit-alone", where, what)
    elif target in SYS_FOR_WITNESSES and source != "proof":
        house.complain("witness-hands", where, what)
    elif target == STACK[1] and member != "apps/userspace":
        house.complain("stack-alone", where, what)
    elif goal == "proof":
        if (member, target) not in PROOF_EDGES:
            house.complain("proof-unseen", where, what)
    elif source == goal == "engine":
        if (member, target) not in ENGINE_EDGES:
            house.complain("engine-edges", where, what)
    elif goal not in MAY_USE.get(source, set()) and (member, target) not in APP_EDGES | CORE_EDGES:
        house.complain("layers", where, what)
    elif source == "sys" and target not in SYS_MAY_USE:
        house.complain("sys-alone", where, what)
    elif source == "apps" and goal != "core" and target not in APP_MAY_USE.get(member, set()):
        house.complain("app-uses", where, what)


def check_external(house, member, name):
    where, what = f"{member}/Cargo.toml", f"{member} uses {name}"
    if layer_of(member) == "core" and name not in CORE_EXTERNALS and not (member == DERIVE[0] and name in DERIVE[1]):
        house.complain("core-externals", where, what)
    if member == TEST_KIT:
        house.complain("testkit-alone", where, what)
    if layer_of(member) == "sys" and name not in SYS_EXTERNALS:
        house.complain("sys-externals", where, what)
    if name in COORDINATOR_ONLY and member != "apps/coordinator" and not (member == LOAD and name in LOAD_MAY_USE):
        house.complain("coordinator-only", where, what)
    if name == TOML[0] and member not in TOML[1]:
        house.complain("toml", where, what)
    if name in SERVER_LOG and member not in SERVERS:
        house.complain("servers-only", where, what)
    if name in LOAD_ONLY and member != LOAD:
        house.complain("load-only", where, what)
    if name == STACK[0] and member != STACK[1]:
        house.complain("stack-alone", where, what)
    if name in APPS_ONLY and layer_of(member) != "apps":
        house.complain("apps-only", where, what)


def check_sources(house):
    for path, code in house.sources("core"):
        # An example is a program for readers: it prints, and takes its input from the command line.
        for word, pattern in CORE_WORDS.items() if not is_example(path) else ():
            for line, hit in hits(pattern, code):
                house.complain("core-pure", f"{path}:{line}", f"names {word}: {hit}")
    for path, code in house.sources("core", "engine", "apps", "proof"):
        for line, _ in hits(r"\bunsafe\b", code):
            house.complain("unsafe", f"{path}:{line}", "has unsafe code")
        store = path.as_posix().startswith("apps/coordinator/src/store/")
        for line, _ in hits(r"\bsqlx\b", "" if store else code):
            house.complain("sqlx-in-store", f"{path}:{line}", "names sqlx")
    for path, code in house.sources("sys", "engine"):
        if not is_test(path) and not is_example(path):
            for line, hit in hits(r"\bstd::(?:\{[^;]*\b)?env\b|\blexopt\b", without_test_modules(code)):
                house.complain("apps-only", f"{path}:{line}", f"names {hit}")


def check_circles(house):
    for member in house.members:
        for parent, modules in circles_of(house, member):
            if member not in CIRCLES_LEFT:
                place = "::".join(("crate", *parent))
                house.complain("circles", f"{member}/src", f"modules of {place} import each other in a circle: {', '.join(modules)}")


def circles_of(house, member):
    """The import circles of a crate: (path of the parent, names of the siblings)."""
    files = [house.root / member / "src" / name for name in ("lib.rs", "main.rs")]
    root = next((file for file in files if file.exists()), None)
    return list(circles.circles(circles.modules(root, lambda file: without_tests(bare(file.read_text()))))) if root else []


def check_lab(house):
    lab = house.root / "lab"
    for path in sorted(lab.glob("*.py")):
        if path.name not in LAB_TOP:
            house.complain("lab-top", path.relative_to(house.root), "is in no room")
    for number, room in enumerate(LAB_ROOMS):
        for path in sorted((lab / room).rglob("*.py")):
            for line, module in lab_imports(path, lab):
                target = module.partition(".")[0]
                if target not in LAB_ROOMS[: number + 1]:
                    house.complain("lab-rooms", f"{path.relative_to(house.root)}:{line}", f"{room} imports lab.{module}")


# --- reading Python --------------------------------------------------------------------------------------------------


def lab_imports(path, lab):
    """Yields the modules of the lab that a file imports: (line, name without `lab.`)."""
    package = ("lab", *path.relative_to(lab).parent.parts)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [name.name.split(".") for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else ()
            base = [*above, *(node.module.split(".") if node.module else [])]
            # `from lab import room` names the room last.
            names = [[*base, name.name] for name in node.names] if base == ["lab"] else [base]
        else:
            continue
        yield from ((node.lineno, ".".join(name[1:])) for name in names if name[0] == "lab")


# --- reading Rust ----------------------------------------------------------------------------------------------------

# Parts of a source file that are not code: comments (without nested block comments), strings, raw strings, characters. The closing quote tells a
# character such as 'a' from a lifetime such as 'a.
NOT_CODE = re.compile(
    r"""//[^\n]*|/\*.*?\*/|b?r(?P<hashes>\#*)".*?"(?P=hashes)|b?"(?:\\.|[^"\\])*"|b?'(?:\\.[^']*|[^'\\])'""", re.DOTALL
)


def bare(text):
    """Returns the code with comments and strings blanked; line numbers stay the same."""
    return NOT_CODE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def without_test_modules(code):
    """Returns the code with each `#[cfg(test)] mod … { … }` blanked."""
    while start := re.search(r"#\[cfg\(test\)\]\s*mod\s+\w+\s*\{", code):
        depth, end = 1, start.end()
        while depth and end < len(code):
            depth += {"{": 1, "}": -1}.get(code[end], 0)
            end += 1
        code = code[: start.start()] + re.sub(r"[^\n]", " ", code[start.start() : end]) + code[end:]
    return code


def without_tests(code):
    """The code without test modules and without imports for tests."""
    code = without_test_modules(code)
    return re.sub(r"#\[cfg\(test\)\]\s*(?:pub(?:\([^)]*\))?\s+)?use\s[^;]*;", lambda match: re.sub(r"[^\n]", " ", match[0]), code)


def is_example(path):
    return path.parts[2:3] == ("examples",)


def is_test(path):
    return "tests" in path.parts or path.name == "tests.rs"


def hits(pattern, code):
    for match in re.finditer(pattern, code):
        yield code.count("\n", 0, match.start()) + 1, " ".join(match[0].split())


# ---------------------------------------------------------------------------------------------------------------------


def violations(root):
    """Returns all violations in the workspace at `root`: (rule, where, what)."""
    house = House(root)
    check_members(house)
    check_arrows(house)
    check_sources(house)
    check_circles(house)
    check_lab(house)
    return house.found


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    found = violations(root)
    for rule, where, what in found:
        print(f"{where}: {what}\n    rule {rule}: {WHY[rule]}", file=sys.stderr)
    house = House(root)
    for member in sorted(CIRCLES_LEFT):
        if member not in house.members or not circles_of(house, member):
            print(f"arrows: {member} has no import circles: remove it from CIRCLES_LEFT")
    members = len(house.members)
    print(f"arrows: {members} crates, {len(WHY)} rules, {len(found)} violations")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
