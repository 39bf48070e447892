#!/usr/bin/env python3
"""Tests of tools/matrix.py, and of the matrix itself."""

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent))
import matrix  # noqa: E402

ENTRY = '[[entry]]\nname = "{name}"\nkind = "check"\nproves = "it works"\nneeds = {needs}\nrun = "{run}"\nminutes = 1\n'


class Matrix(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        for name, value in (("ROOT", self.folder), ("LOGS", self.folder / "logs")):
            patch = mock.patch.object(matrix, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def write(self, *entries):
        """Writes a matrix with entries of (name, command, needs)."""
        path = self.folder / "matrix.toml"
        path.write_text("\n".join(ENTRY.format(name=name, run=run, needs=json.dumps(needs)) for name, run, needs in entries))
        return path

    def main(self, path, *words):
        """Runs the tool; returns (exit status, what it printed)."""
        out, error = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
            code = matrix.main(["--matrix", str(path), *words])
        return code, out.getvalue()

    def test_the_list_says_what_is_missing(self):
        path = self.write(("one", "true", []), ("two", "true", ["program no-such-program", "file nowhere"]), ("three", "", ["person a router"]))
        code, text = self.main(path)
        self.assertEqual(code, 0)
        self.assertIn("two needs the program no-such-program, the file nowhere", text)
        self.assertIn("three needs a person: a router", text)
        self.assertIn("1 of 3 entries can run here", text)
        found = json.loads(self.main(path, "--json")[1])
        self.assertEqual((found["schema"], [entry["possible"] for entry in found["entries"]]), (1, [True, False, False]))

    def test_what_passes_and_what_fails_is_told(self):
        path = self.write(("good", "echo fine", []), ("bad", "echo broken; exit 3", []), ("never", "true", ["file nowhere"]))
        code, text = self.main(path, "--run", "good,bad", "--json")
        found = json.loads(text)
        self.assertEqual((code, found["ok"]), (1, False))
        self.assertEqual([(result["name"], result["result"]) for result in found["results"]], [("good", "passed"), ("bad", "failed")])
        self.assertEqual(found["results"][1]["why"], "exit status 3: broken")
        self.assertEqual((self.folder / found["results"][0]["log"]).read_text(), "fine\n")
        self.assertEqual(self.main(path, "--run", "good")[0], 0)
        code, text = self.main(path, "--run", "all-possible")
        self.assertEqual((code, "never" in text), (1, False))
        code, text = self.main(path, "--run", "never")
        self.assertEqual(code, 1, "an entry that was named and cannot run is no success")
        self.assertIn("not possible", text)
        self.assertEqual(self.main(path, "--run", "kernel")[0], 1, "a kind without entries is no success either")

    def test_a_failure_in_the_middle_of_a_pipe_counts(self):
        self.assertEqual(self.main(self.write(("pipe", "false | cat", [])), "--run", "pipe")[0], 1)

    def test_mistakes_are_named(self):
        good = ENTRY.format(name="a", run="true", needs="[]")
        for text, what in (
            (good + good, "taken"),
            (good.replace('"check"', '"chek"'), "no kind chek"),
            (good.replace("minutes = 1\n", ""), "has the fields"),
            (good.replace("[]", '["prgram x"]'), "no need"),
            (good.replace("[]", '["program"]'), "no need"),
            (good.replace('"true"', '""'), "no command"),
            (good.replace('"a"', '"all-possible"'), "taken"),
        ):
            path = self.folder / "matrix.toml"
            path.write_text(text)
            with self.assertRaisesRegex(SystemExit, what):
                matrix.read(path)
        with self.assertRaisesRegex(SystemExit, "no entry b"):
            self.main(self.write(("a", "true", [])), "--run", "b")

    def test_an_interrupt_ends_what_runs(self):
        path = self.write(("long", "echo $$ > started; sleep 600", []))
        child = f"import sys; sys.path.insert(0, {str(Path(matrix.__file__).parent)!r}); import matrix, pathlib; matrix.ROOT = pathlib.Path({str(self.folder)!r}); matrix.LOGS = matrix.ROOT / 'logs'; sys.exit(matrix.main(['--matrix', {str(path)!r}, '--run', 'long']))"
        process = subprocess.Popen([sys.executable, "-c", child], stdout=subprocess.DEVNULL)
        started = self.folder / "started"
        while not (started.exists() and started.read_text().strip()):
            self.assertIsNone(process.poll())
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(60), 130)
        with self.assertRaises(ProcessLookupError):
            os.kill(int(started.read_text()), 0)


class Own(unittest.TestCase):
    """ci/matrix.toml."""

    def test_every_command_exists(self):
        makefile = (matrix.ROOT / "Makefile").read_text(encoding="utf-8")
        goals = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE)) | {goal for line in re.findall(r"^([a-z -]+):$", makefile, re.MULTILINE) for goal in line.split()}
        for entry in matrix.read():
            for words in re.findall(r"\bmake ([a-z -]+)", entry["run"]):
                self.assertLessEqual(set(words.split()), goals, entry["name"])
            for path in re.findall(r"\b((?:tools|lab)/\S+)", entry["run"]):
                self.assertTrue((matrix.ROOT / path).exists(), f"{entry['name']}: {path}")

    def test_every_processor_of_the_packages_is_in_it(self):
        from shipping import targets  # noqa: PLC0415

        text = matrix.MATRIX.read_text(encoding="utf-8")
        self.assertIn('run = "make packages packages-run"', text, "all processors")
        self.assertTrue({"armv7", "mips"} <= {target.name for target in targets.TARGETS})

    def test_every_kind_but_none_is_used(self):
        self.assertEqual({entry["kind"] for entry in matrix.read()}, set(matrix.KINDS))


if __name__ == "__main__":
    unittest.main()
