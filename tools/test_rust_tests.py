"""Tests of rust_tests.py: python3 tools/test_rust_tests.py"""

import contextlib
import io
import json
import tempfile
import unittest
from pathlib import Path

import rust_tests


def message(name, kind, test=True, executable=True):
    target = {"name": name, "kind": [kind]}
    program = f"/target/{name}" if executable else None
    return json.dumps({"reason": "compiler-artifact", "target": target, "profile": {"test": test}, "executable": program, "manifest_path": f"/src/{name}/Cargo.toml"})


class RustTests(unittest.TestCase):
    def test_test_programs_are_found_and_long_ones_come_first(self):
        lines = [message("wire", "lib"), message("kernel", "test"), message("scenarios", "test"), message("taut", "bin", test=False), message("lib", "lib", executable=False)]
        lines.append(json.dumps({"reason": "build-finished", "success": True}))
        self.assertEqual([one[0] for one in rust_tests.programs(lines)], ["scenarios", "wire", "kernel"])
        self.assertEqual(rust_tests.programs(lines, unit=True), [("wire", ["/target/wire"], "/src/wire")])

    def test_the_coordinator_runs_a_second_time_where_there_is_a_database_server(self):
        lines = [message("taut-coordinator", "bin")]
        self.assertEqual(len(rust_tests.programs(lines)), 1)
        first, second = (command for _, command, _ in rust_tests.programs(lines, postgres=True))
        self.assertEqual(first, ["/target/taut-coordinator", "--skip", "on_server", "--skip", "tests::replicas", "--skip", "at_a_real_provider"])
        self.assertEqual(second[:4], [str(rust_tests.WITH_POSTGRES), "/target/taut-coordinator", "--include-ignored", "--skip"])

    def test_the_coordinator_signs_people_in_where_there_is_a_provider(self):
        lines = [message("taut-coordinator", "bin"), message("kill", "test")]
        commands = [command for _, command, _ in rust_tests.programs(lines, provider=True)]
        self.assertEqual(commands[2], [str(rust_tests.WITH_PROVIDER), "/target/taut-coordinator", "--include-ignored", "at_a_real_provider"])
        self.assertEqual(len(rust_tests.programs(lines, unit=True)), 1)

    def run_scripts(self, twice=False, **scripts):
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as told:
            wanted = []
            for name, text in scripts.items():
                path = Path(folder) / name
                path.write_text(f"#!/bin/sh\n{text}\n")
                path.chmod(0o755)
                wanted.append((name, [str(path)], folder))
            pool = rust_tests.Pool(2, ["--word"])
            return *rust_tests.run_all(pool, wanted, twice), told.getvalue()

    def test_a_failure_is_named_and_every_output_printed(self):
        failed, _, told = self.run_scripts(good="echo fine $1", bad="echo broken >&2; exit 1", last="pwd")
        self.assertEqual(failed, ["bad"])
        self.assertIn("fine --word", told)
        self.assertIn("broken", told)

    def test_programs_run_side_by_side(self):
        # Each waits for the other's file.
        meet = "touch {0}; until [ -e {1} ]; do sleep 0.01; done"
        self.assertEqual(self.run_scripts(one=meet.format("a", "b"), two=meet.format("b", "a"))[0], [])

    def test_a_failed_program_runs_once_more_when_the_others_have_ended(self):
        # Passes when it finds what its first run left.
        shaky = "[ -e was-here ] && exit 0; touch was-here; exit 1"
        failed, disturbed, told = self.run_scripts(twice=True, shaky=shaky, bad="exit 1", good="true")
        self.assertEqual((failed, disturbed), (["bad"], ["shaky"]))
        self.assertEqual(told.count("Running shaky"), 2)
        self.assertEqual(told.count("Running good"), 1)

    def test_many_failures_and_those_of_the_night_count_at_once(self):
        failed, disturbed, told = self.run_scripts(twice=True, **{name: "exit 1" for name in ("a", "b", "c")})
        self.assertEqual((sorted(failed), disturbed, told.count("Running a")), (["a", "b", "c"], [], 1))
        failed, disturbed, _ = self.run_scripts(bad="[ -e was-here ] && exit 0; touch was-here; exit 1")
        self.assertEqual((failed, disturbed), (["bad"], []))


if __name__ == "__main__":
    unittest.main()
