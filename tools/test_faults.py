"""Proves what faults.py finds and what it refuses, on a small house.

python3 tools/test_faults.py
"""

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
        self.assertEqual(faults.summary(faults.collect(self.root)[0]), {"faults": 3, "tested": 2, "open": 1, "tests": 2})

    def test_an_unknown_fault_is_refused(self):
        self.write("lab/tests/test_x.py", "def test_fault_k9_what(lab):\n    pass\n")
        self.assertEqual(faults.collect(self.root)[1], [("K9", "lab/tests/test_x.py", "test_fault_k9_what")])

    def test_the_list_names_the_tests_and_what_is_open(self):
        self.write("core/a.rs", "fn fault_a1_short() {}")
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            faults.print_list(faults.collect(self.root)[0], only_open=False)
        self.assertIn("A1  short -> silence\n      core/a.rs: fault_a1_short\n", out.getvalue())
        self.assertIn("K2  open: cut -> error\n", out.getvalue())

    def test_the_list_of_this_house_is_whole(self):
        # How many faults each group began with: the list grows, it never loses one, and its numbers have no gaps.
        least = dict(zip("ABCDEFGHIJKLMNOP", (18, 10, 8, 15, 18, 12, 14, 8, 9, 10, 7, 7, 8, 12, 9, 5), strict=True))
        root = Path(faults.__file__).resolve().parent.parent
        listed = list(faults.listed(root))
        sizes = {group: sum(fault[0] == group for fault in listed) for group in least}
        self.assertEqual({group for group, size in sizes.items() if size < least[group]}, set())
        self.assertEqual(listed, [f"{group}{number}" for group, size in sizes.items() for number in range(1, size + 1)])


if __name__ == "__main__":
    unittest.main(argv=[word for word in sys.argv if word != "--quiet"], verbosity=0 if "--quiet" in sys.argv else 1)
