"""Tests of the comparison of instruction counts: python3 tools/test_micro.py"""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import micro  # noqa: E402


class Compare(unittest.TestCase):
    def wrong(self, found, baseline):
        return list(micro.compare(found, baseline, 0.05))

    def test_more_than_the_tolerance_is_an_error_and_less_work_is_not(self):
        self.assertEqual(self.wrong({"a": 104, "b": 50}, {"a": 100, "b": 100}), [])
        self.assertEqual(len(self.wrong({"a": 106, "b": 50}, {"a": 100, "b": 100})), 1)

    def test_a_step_without_a_baseline_and_a_baseline_without_a_step_are_reported(self):
        self.assertEqual(len(self.wrong({"a": 1}, {"b": 1})), 2)


if __name__ == "__main__":
    unittest.main()
