"""Tests of faults.py on a small source tree: python3 tools/test_faults.py"""

import contextlib
import io
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import faults  # noqa: E402

LIST = "# Faults\n\n| fault | a | b |\n|---|---|---|\n| A1 | short | silence |\n| K2 | cut | error |\n| K3 | full | stays |\n"


class Faults(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = Path(self.folder.name)
        self.write("docs/spec/faults.md", LIST)

    def write(self, path, text):
        path = self.root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def found(self):
        return {name: [test["test"] for test in entry["tests"]] for name, entry in faults.collect(self.root)[0].items()}

    def test_names_in_both_languages_and_several_in_one(self):
        self.write("core/wire/src/lib.rs", "#[test]\nfn fault_a1_k2_both() {}\n// fn other_fault_k3_x() {}\n")
        self.write("lab/tests/test_x.py", "def test_fault_k2_cut(lab):\n    pass\n")
        self.assertEqual(self.found(), {"A1": ["fault_a1_k2_both"], "K2": ["fault_a1_k2_both", "test_fault_k2_cut"], "K3": []})
        self.assertEqual(faults.summary(faults.collect(self.root)[0]), {"faults": 3, "tested": 2, "open": 1, "only_at_night": 0, "tests": 2})

    def test_an_unknown_fault_is_refused(self):
        self.write("lab/tests/test_x.py", "def test_fault_k9_what(lab):\n    pass\n")
        self.assertEqual(faults.collect(self.root)[1], [("K9", "lab/tests/test_x.py", "test_fault_k9_what")])

    def test_the_list_names_the_tests_and_what_is_open(self):
        self.write("core/a.rs", "fn fault_a1_short() {}")
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            faults.print_list(faults.collect(self.root)[0], lambda _: True)
        self.assertIn("A1  short -> silence\n      core/a.rs: fault_a1_short\n", out.getvalue())
        self.assertIn("K2  open: cut -> error\n", out.getvalue())

    def test_a_fault_whose_tests_all_run_at_night_is_found(self):
        listed = '[[night]]\ntests = ["test_x.py"]\nby_day = ["test_x.py::test_fault_a1_kinds[one]"]\nreason = "many"\n'
        self.write("lab/tests/night.toml", listed + '[[night]]\ntests = ["test_y.py::test_fault_k3_one"]\nreason = "long"\n')
        self.write("lab/tests/test_x.py", "def test_fault_a1_kinds(lab):\n    pass\ndef test_fault_k2_cut(lab):\n    pass\n")
        self.write("lab/tests/test_y.py", "def test_fault_k3_one(lab):\n    pass\ndef test_fault_k3_other(lab):\n    pass\n")
        found = faults.collect(self.root)[0]
        self.assertEqual([name for name, entry in found.items() if faults.is_only_at_night(entry)], ["K2"])
        self.assertEqual(found["K2"]["tests"][0]["night"], "many")
        self.assertEqual(faults.summary(found)["only_at_night"], 1)

    def test_an_ignored_test_in_rust_runs_at_night(self):
        self.write("core/a.rs", '#[test]\n#[ignore = "night: minutes"]\nfn fault_a1_long() {}\n#[test]\nfn fault_k2_short() {}\n')
        found = faults.collect(self.root)[0]
        self.assertEqual([test.get("night") for name in ("A1", "K2") for test in found[name]["tests"]], ["minutes", None])

    def test_the_list_of_this_house_is_whole(self):
        # The number of faults that each group began with. The list never loses a fault, and its numbers have no gaps.
        least = dict(zip("ABCDEFGHIJKLMNOP", (18, 10, 8, 15, 18, 12, 14, 8, 9, 10, 7, 7, 8, 12, 9, 5), strict=True))
        root = Path(faults.__file__).resolve().parent.parent
        listed = list(faults.listed(root))
        sizes = {group: sum(fault[0] == group for fault in listed) for group in least}
        self.assertEqual({group for group, size in sizes.items() if size < least[group]}, set())
        self.assertEqual(listed, [f"{group}{number}" for group, size in sizes.items() for number in range(1, size + 1)])


if __name__ == "__main__":
    unittest.main(argv=[word for word in sys.argv if word != "--quiet"], verbosity=0 if "--quiet" in sys.argv else 1)
