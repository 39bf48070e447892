"""Tests of stages.py: python3 tools/test_stages.py"""

import contextlib
import io
import os
import tempfile
import unittest
from pathlib import Path

import stages
from stages import Run, Stage


class StagesTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = Path(self.folder.name)

    def run_stages(self, *wanted, scripts):
        """Runs stages as shell scripts by name; returns (all passed, results by name, output)."""
        out = io.StringIO()
        run = Run(wanted, lambda stage: ["sh", "-ec", scripts.get(stage.name, "true")], out, self.path)
        passed = run.finish()
        return passed, {name: record.result for name, record in run.records.items()}, out.getvalue()

    def test_a_stage_waits_for_what_it_needs(self):
        order = self.path / "order"
        scripts = {name: f"echo {name} >> {order}" for name in ("one", "two", "three")}
        passed, _, _ = self.run_stages(Stage("three", needs=("two",)), Stage("two", after=("one",)), Stage("one"), scripts=scripts)
        self.assertTrue(passed)
        self.assertEqual(order.read_text().split(), ["one", "two", "three"])

    def test_what_needs_a_failed_stage_is_not_run_and_what_comes_after_it_is(self):
        wanted = (Stage("build"), Stage("tests", needs=("build",)), Stage("more", needs=("tests",)), Stage("last", after=("build", "more")))
        passed, results, output = self.run_stages(*wanted, scripts={"build": "echo it broke; exit 3"})
        self.assertFalse(passed)
        self.assertEqual(results, {"build": "failed", "tests": "not run", "more": "not run", "last": "passed"})
        self.assertIn("it broke", output)

    def test_stages_run_side_by_side_unless_they_hold_the_same(self):
        # Each of two waits for the other's file: that ends only if both run at once.
        meet = {name: f"touch {self.path}/{name}; until [ -e {self.path}/{other} ]; do sleep 0.01; done" for name, other in (("a", "b"), ("b", "a"))}
        self.assertTrue(self.run_stages(Stage("a"), Stage("b"), scripts=meet)[0])
        lock = f"mkdir {self.path}/lock; sleep 0.05; rmdir {self.path}/lock"
        self.assertTrue(self.run_stages(Stage("c", holds="x"), Stage("d", holds="x"), scripts={"c": lock, "d": lock})[0])

    def test_a_stage_alone_ignores_stages_that_are_not_part_of_the_run(self):
        self.assertTrue(self.run_stages(Stage("two", needs=("one",), after=("zero",)), scripts={})[0])

    def test_a_running_stage_says_where_its_output_goes_and_how_far_it_is(self):
        out, go = io.StringIO(), self.path / "go"
        script = f"echo compiling one; printf 'compiling two\\r\\n\\n'; until [ -e {go} ]; do sleep 0.01; done"

        class Watched(io.StringIO):
            def write(self, text):
                if "compiling two" in text:
                    go.touch()
                return out.write(text)

        self.assertTrue(Run([Stage("build")], lambda _: ["sh", "-ec", script], Watched(), self.path, progress=0).finish())
        self.assertIn(f"==> build: started; its output goes to {self.path}/build.log", out.getvalue())
        self.assertRegex(out.getvalue(), "==> build: running for [0-9]+ s: compiling two\n")

    def test_an_interrupt_ends_what_runs(self):
        file = self.path / "pid"
        run = Run([Stage("long")], lambda _: ["sh", "-c", f"echo $$ > {file}; exec sleep 600"], io.StringIO(), self.path)
        run._collect = lambda: self.interrupt_after(file)
        with self.assertRaises(KeyboardInterrupt):
            run.finish()
        self.assertEqual(run.records["long"].result, "stopped")
        with self.assertRaises(ProcessLookupError):
            os.kill(int(file.read_text()), 0)

    def interrupt_after(self, file):
        while not (file.exists() and file.read_text().endswith("\n")):
            pass
        raise KeyboardInterrupt

    def test_the_table_has_every_stage_and_the_total(self):
        records = [stages.Record(Stage("slow"), 10, 30, 45, "passed"), stages.Record(Stage("never"))]
        lines = list(stages.table(records, 60))
        self.assertEqual(lines[1].split(), ["slow", "10", "30", "45", "passed"])
        self.assertEqual(lines[2].split()[-1], "waiting")
        self.assertEqual(lines[-1].split()[:3], ["total", "60", "45"])

    def test_the_end_of_a_run_names_what_failed(self):
        log = "test a ... ok\ntest b::c ... FAILED\nFAILED lab/tests/test_x.py::test_y - AssertionError\nwarning: unused import: `x`\nmake: *** [Makefile:1]"
        self.assertEqual(stages.failures(log), log.splitlines()[1:4])
        self.assertEqual(stages.failures("one\nother words"), ["other words"])
        self.assertEqual(stages.failures("FAILED x\n" * 30)[-1], "and 10 more lines")
        seen = "test b ... FAILED\n  left: 1\n right: 2\n" + "E   an event\n" * 70
        self.assertEqual(stages.failures(seen)[:3], ["  left: 1", " right: 2", "E   an event"])
        self.assertEqual(stages.failures(seen)[-2:], ["and 12 more lines", "test b ... FAILED"])

    def test_every_stage_is_a_recipe_and_comes_after_stages_of_its_run(self):
        recipes = (stages.ROOT / "Makefile").read_text()
        for make in stages.RUNS.values():
            known = set()
            for stage in make():
                self.assertRegex(recipes, rf"(?m)^[a-z -]*\b{stage.name}\b[a-z -]*:")
                self.assertLessEqual({*stage.needs, *stage.after}, known, stage.name)
                known.add(stage.name)

    def test_an_unknown_stage_is_a_usage_error(self):
        with contextlib.redirect_stderr(io.StringIO()) as told, self.assertRaises(SystemExit) as ended:
            stages.main(["day", "nothing"])
        self.assertEqual(ended.exception.code, 2)
        self.assertIn("nothing", told.getvalue())


if __name__ == "__main__":
    unittest.main()
