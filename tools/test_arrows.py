"""Proves that each rule of arrows.py can fail: a small house without fault, and one change that breaks each rule.

python3 tools/test_arrows.py
"""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import arrows  # noqa: E402

MEMBERS = [
    "core/base",
    "core/wire",
    "sys/udp",
    "sys/tun",
    "sys/packet",
    "sys/tally",
    "sys/namespace",
    "engine/lane",
    "engine/control",
    "engine/agent",
    "apps/taut",
    "apps/coordinator",
    "proof/testkit",
    "proof/sim",
    "proof/fuzz",
    "proof/linkbox",
    "proof/load",
]
USES = {
    "core/base": "serde = '1'",
    "core/wire": "taut-base.workspace = true",
    "sys/udp": "taut-base.workspace = true\nlibc = '0.2'",
    "engine/lane": "taut-wire.workspace = true\ntaut-udp.workspace = true",
    "engine/agent": "taut-lane.workspace = true\ntaut-control.workspace = true\ntaut-tun.workspace = true",
    "apps/taut": "taut-agent.workspace = true\nlexopt = '0.3'",
    "apps/coordinator": "taut-wire.workspace = true\ntokio = '1'\nsqlx = '0.9'",
    "proof/testkit": "taut-base.workspace = true",
    "proof/sim": "taut-lane.workspace = true\ntaut-agent.workspace = true\ntaut-testkit.workspace = true",
    "proof/fuzz": "taut-sim.workspace = true\ntaut-control.workspace = true\ntaut-testkit.workspace = true",
    "proof/linkbox": "taut-packet.workspace = true",
    "proof/load": "quinn = '0.11'\ntokio = '1'",
}
SOURCES = {
    "core/base/src/lib.rs": "use std::time::Duration;\n// std::time::Instant, unsafe\npub const TEXT: &str = \"std::fs\";\n",
    "core/wire/src/lib.rs": "use std::net::{IpAddr, SocketAddr};\npub fn quote() -> (char, char) { ('\"', '\\'') }\n",
    "sys/udp/src/lib.rs": "pub fn call() { unsafe { libc::abort() } }\n",
    "engine/lane/src/lib.rs": "#[cfg(test)]\nmod tests {\n    fn here() { std::env::temp_dir(); }\n}\n",
    "apps/taut/src/main.rs": "fn main() { std::env::args(); }\n",
    "apps/coordinator/src/store/mod.rs": "use sqlx::query;\n",
    "lab/conftest.py": "from .runs import demo\nfrom .nodes.taut import Node\n",
    "lab/runs/demo.py": "from ..nodes import taut\nfrom ..hosts.net import Lab\nfrom . import report\n",
    "lab/nodes/systems/base.py": "import json\n\nfrom ...hosts.net import Lab\nfrom ..taut import Node\n",
    "lab/tests/test_demo.py": "from lab.runs import demo\n",
}


def name(member):
    return "taut" if member == "apps/taut" else f"taut-{Path(member).name}"


class Rules(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = Path(directory.name)
        shared = "".join(f'{name(member)} = {{ path = "{member}" }}\n' for member in MEMBERS)
        members = "".join(f'    "{member}", # what it is\n' for member in MEMBERS)
        self.write("Cargo.toml", f"[workspace]\nmembers = [\n{members}]\n[workspace.dependencies]\n{shared}")
        for member in MEMBERS:
            head = f'[package]\nname = "{name(member)}"\n[lints]\nworkspace = true\n'
            self.write(f"{member}/Cargo.toml", f"{head}[dependencies]\n{USES.get(member, '')}\n")
        for path, text in SOURCES.items():
            self.write(path, text)

    def write(self, path, text):
        path = self.root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def append(self, path, text):
        self.write(path, (self.root / path).read_text() + text if (self.root / path).exists() else text)

    def uses(self, member, what, table="dependencies"):
        """Adds a dependency of our own (`core/base`) or of the world (`tokio`)."""
        key = name(what) if "/" in what else what
        value = "{ workspace = true }" if "/" in what else '"1"'
        self.append(f"{member}/Cargo.toml", f"[{table}.{key}]\n{'workspace = true' if '/' in what else 'version = ' + value}\n")

    def found(self):
        return {rule for rule, _, _ in arrows.violations(self.root)}

    def breaks(self, *rules):
        self.assertEqual(self.found(), set(rules))

    def test_a_sound_house_has_no_violation(self):
        self.breaks()

    def test_layers(self):
        for member, target in (("core/base", "sys/udp"), ("core/wire", "engine/lane"), ("engine/lane", "apps/taut")):
            with self.subTest(member=member):
                self.setUp()
                self.uses(member, target)
                self.breaks("layers")

    def test_layers_hold_for_build_and_platform_dependencies(self):
        self.uses("core/wire", "engine/lane", "build-dependencies")
        self.breaks("layers")
        self.setUp()
        self.uses("core/wire", "sys/tun", "target.'cfg(unix)'.dependencies")
        self.breaks("layers")

    def test_layers_hold_for_tests_of_core(self):
        self.uses("core/wire", "sys/udp", "dev-dependencies")
        self.breaks("layers")

    def test_tests_may_use_witnesses(self):
        self.uses("core/wire", "proof/sim", "dev-dependencies")
        self.breaks()

    def test_sys_alone(self):
        self.uses("sys/tun", "sys/udp")
        self.breaks("layers")
        self.setUp()
        self.uses("sys/tun", "core/wire")
        self.breaks("sys-alone")

    def test_engine_edges(self):
        self.uses("engine/lane", "engine/control")
        self.breaks("engine-edges")

    def test_app_uses(self):
        self.uses("apps/coordinator", "engine/lane")
        self.breaks("app-uses")
        self.setUp()
        self.uses("apps/taut", "sys/tun")
        self.breaks("app-uses")

    def test_proof_unseen(self):
        for member, target in (
            ("engine/lane", "proof/sim"),
            ("engine/lane", "proof/fuzz"),
            ("core/wire", "proof/testkit"),
            ("proof/linkbox", "proof/testkit"),
            ("proof/sim", "proof/fuzz"),
        ):
            with self.subTest(member=member, target=target):
                self.setUp()
                self.uses(member, target)
                self.breaks("proof-unseen")

    def test_witness_hands(self):
        for member, target in (("engine/lane", "sys/packet"), ("apps/taut", "sys/tally"), ("sys/udp", "sys/namespace")):
            with self.subTest(member=member):
                self.setUp()
                self.uses(member, target)
                self.breaks("witness-hands")
        self.setUp()
        self.uses("engine/lane", "sys/tally", "dev-dependencies")
        self.breaks()

    def test_testkit_alone(self):
        for target in ("core/wire", "sys/udp", "engine/lane", "proof/sim"):
            with self.subTest(target=target):
                self.setUp()
                self.uses("proof/testkit", target)
                self.breaks("testkit-alone")
        self.setUp()
        self.uses("proof/testkit", "rand")
        self.breaks("testkit-alone")

    def test_tests_of_every_layer_may_use_the_kits(self):
        self.uses("core/wire", "proof/testkit", "dev-dependencies")
        self.uses("sys/udp", "sys/namespace", "dev-dependencies")
        self.breaks()

    def test_load_alone(self):
        self.uses("proof/load", "engine/lane")
        self.breaks("load-alone")

    def test_load_only(self):
        for member in ("engine/lane", "apps/coordinator", "proof/sim"):
            with self.subTest(member=member):
                self.setUp()
                self.uses(member, "quinn")
                self.breaks("load-only")

    def test_stack_alone(self):
        for member in ("engine/agent", "apps/taut", "apps/coordinator"):
            with self.subTest(member=member):
                self.setUp()
                self.uses(member, "smoltcp")
                self.breaks("stack-alone")

    def test_core_externals(self):
        for runtime in ("tokio", "mio", "libc", "socket2", "rand"):
            with self.subTest(runtime=runtime):
                self.setUp()
                self.uses("core/wire", runtime)
                self.assertIn("core-externals", self.found())

    def test_a_renamed_dependency_is_seen(self):
        self.append("core/wire/Cargo.toml", '[dependencies.innocent]\nversion = "1"\npackage = "libc"\n')
        self.breaks("core-externals")

    def test_core_pure(self):
        for line in (
            "use std::net::UdpSocket;",
            "use std::net::{IpAddr, TcpStream};",
            "use std::time::Instant;",
            "fn now() { std::time::SystemTime::now(); }",
            "use std::fs;",
            "use std::{collections::BTreeMap, fs};",
            "use std::io::Read;",
            "fn go() { std::thread::spawn(|| ()); }",
            "use std::process::Command;",
            "use std::sync::mpsc::channel;",
            "async fn go() {}",
            'fn tell() { println!("x"); }',
            "#[cfg(test)]\nmod tests { use std::time::Instant; }",
        ):
            with self.subTest(line=line):
                self.setUp()
                self.append("core/wire/src/lib.rs", line)
                self.breaks("core-pure")

    def test_examples_print_and_read_the_command_line(self):
        for member in ("core/wire", "sys/tun"):
            self.write(f"{member}/examples/name.rs", 'fn main() {\n    println!("{:?}", std::env::args());\n}\n')
        self.breaks()

    def test_sys_externals(self):
        self.uses("sys/tun", "socket2")
        self.breaks("sys-externals")

    def test_coordinator_only(self):
        for member, what in (("engine/control", "tokio"), ("proof/linkbox", "tokio"), ("proof/load", "hyper")):
            with self.subTest(member=member):
                self.setUp()
                self.uses(member, what)
                self.breaks("coordinator-only")

    def test_toml(self):
        self.uses("apps/taut", "toml")
        self.breaks("toml")
        self.setUp()
        self.uses("proof/fuzz", "toml")
        self.breaks()

    def test_servers_only(self):
        for member in ("engine/control", "apps/taut", "proof/load"):
            with self.subTest(member=member):
                self.setUp()
                self.uses(member, "tracing")
                self.breaks("servers-only")
        self.setUp()
        self.uses("apps/coordinator", "tracing-subscriber")
        self.breaks()

    def test_apps_only(self):
        self.uses("engine/agent", "lexopt")
        self.breaks("apps-only")
        for line in ("fn home() { std::env::var_os(\"HOME\"); }", "use std::{env, fs};"):
            with self.subTest(line=line):
                self.setUp()
                self.append("engine/lane/src/lib.rs", line)
                self.breaks("apps-only")

    def test_sqlx_in_store(self):
        self.write("apps/coordinator/src/state.rs", "fn rows() { sqlx::query(\"\"); }")
        self.breaks("sqlx-in-store")

    def test_unsafe(self):
        for path in ("core/wire/src/lib.rs", "engine/lane/tests/kernel.rs", "apps/taut/src/main.rs", "proof/sim/src/lib.rs"):
            with self.subTest(path=path):
                self.setUp()
                self.append(path, "fn call() { unsafe { core::hint::unreachable_unchecked() } }")
                self.breaks("unsafe")

    def siblings(self, member="engine/lane", **modules):
        """Writes modules of a crate: name to code."""
        self.append(f"{member}/src/lib.rs", "".join(f"mod {name};\n" for name in modules))
        for name, code in modules.items():
            self.write(f"{member}/src/{name}.rs", code)

    def test_circles(self):
        for a, b, c in (
            ("use crate::b::B;", "use super::a::A;", ""),
            ("use crate::b;", "fn go() { crate::a::go() }", ""),
            ("use super::{b::{B, Other}, c};", "use crate::c::C;", "pub(crate) use crate::{a as other};"),
            ("mod inner;", "use crate::a::A;", ""),
        ):
            with self.subTest(a=a, b=b, c=c):
                self.setUp()
                self.siblings(a=a, b=b, c=c)
                self.write("engine/lane/src/a/inner.rs", "use super::super::b::B;" if "inner" in a else "")
                self.lane_has_circles()

    def test_circles_through_a_name_that_the_parent_imports(self):
        self.append("engine/lane/src/lib.rs", "pub use a::A;\n")
        self.siblings(a="use crate::b::B;", b="use crate::A;")
        self.lane_has_circles()

    def test_circles_below_another_module(self):
        self.siblings(a="mod b;\nmod c;\n")
        self.write("engine/lane/src/a/b.rs", "use super::c::C;")
        self.write("engine/lane/src/a/c/mod.rs", "use crate::a::b::B;")
        self.lane_has_circles()

    def lane_has_circles(self):
        left, arrows.CIRCLES_LEFT = arrows.CIRCLES_LEFT, set()
        try:
            self.breaks("circles")
        finally:
            arrows.CIRCLES_LEFT = left

    def test_imports_in_one_direction_and_of_tests_are_no_circles(self):
        left, arrows.CIRCLES_LEFT = arrows.CIRCLES_LEFT, set()
        self.addCleanup(lambda: setattr(arrows, "CIRCLES_LEFT", left))
        self.siblings(
            a="use crate::{b::B, c::C, Own};\n#[cfg(test)]\nmod tests {\n    use crate::d::D;\n}\n",
            b="use super::c::C;\n#[cfg(test)]\nuse crate::a::A;\n",
            c="use crate::Own;\n// use crate::a::A;\n",
            d="use crate::a::A;\n",
        )
        self.append("engine/lane/src/lib.rs", "pub struct Own(a::A);\n#[cfg(test)]\nmod tests;\n")
        self.write("engine/lane/src/tests.rs", "use crate::a::A;")
        self.breaks()

    def test_member_comment(self):
        self.write("Cargo.toml", (self.root / "Cargo.toml").read_text().replace(' "sys/udp", # what it is', ' "sys/udp",'))
        self.breaks("member-comment")

    def test_member_listed(self):
        self.write("core/path/Cargo.toml", '[package]\nname = "taut-path"\n')
        self.breaks("member-listed")

    def test_crate_name(self):
        path = self.root / "sys/tun/Cargo.toml"
        path.write_text(path.read_text().replace("taut-tun", "tuntap"))
        shared = self.root / "Cargo.toml"
        shared.write_text(shared.read_text().replace("taut-tun =", "tuntap ="))
        agent = self.root / "engine/agent/Cargo.toml"
        agent.write_text(agent.read_text().replace("taut-tun.", "tuntap."))
        self.breaks("crate-name")

    def test_lab_rooms(self):
        for number, (room, text) in enumerate((
            ("hosts", "from ..nodes.taut import Node"),
            ("hosts/nats", "from ... import runs"),
            ("measure", "def late():\n    from lab.compare import plan"),
            ("nodes", "import lab.runs.demo"),
            ("traffic/work", "from ...conftest import lab"),
            ("runs", "from lab import tests"),
        )):  # fmt: skip
            with self.subTest(text):
                path = f"lab/{room}/new_{number}.py"
                self.write(path, text + "\n")
                self.breaks("lab-rooms")
                (self.root / path).unlink()

    def test_lab_top(self):
        self.write("lab/new.py", "")
        self.breaks("lab-top")

    def test_lints(self):
        path = self.root / "core/wire/Cargo.toml"
        path.write_text(path.read_text().replace("workspace = true\n[dep", "\n[dep"))
        self.breaks("lints")

    def test_every_rule_has_a_test(self):
        tests = {test.removeprefix("test_").replace("_", "-") for test in dir(self)}
        self.assertEqual(set(arrows.WHY) - tests, set())


if __name__ == "__main__":
    unittest.main()
