#!/usr/bin/env python3
"""Tests that each rule of links.py can fail: a small house is made, one citation is broken, and the complaint is compared."""

import tempfile
import unittest
from pathlib import Path

import links

HOUSE = {
    "ARCHITECTURE.md": "| 1 | a law |\nRead core/tunnel/src/keyring.rs: `Keyring::sending`, `fresh_index`, `refusal`.\n",
    "docs/internals/lanes.md": "`Keyring` seals.\n",
    "docs/spec/protocol.md": "## 1. Sessions\n1. One.\n",
    "docs/spec/faults.md": "| A1 | a fault |\n",
    "core/tunnel/src/keyring.rs": "pub struct Keyring;\nimpl Keyring { pub fn sending() {} }\nfn fresh_index() {}\nfn refusal() {}\n",
    "core/tunnel/src/pair.rs": "pub struct Pair;\nimpl Pair { pub fn open() {} }\n",
}


def complaints(**changes):
    """What links.py says of the house after files were changed."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name, text in {**HOUSE, **changes.get("files", {})}.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        found = []
        (root / "Cargo.toml").write_text("")
        for check in (links.check_maps, links.check_documents, links.check_citations):
            check(root, lambda where, what: found.append(f"{where}: {what}"))
        return found


class Maps(unittest.TestCase):
    def test_a_true_house_has_no_complaint(self):
        self.assertEqual(complaints(), [])

    def says(self, text, expected, document="ARCHITECTURE.md"):
        self.assertIn(f"{document}: {expected}", complaints(files={document: HOUSE.get(document, "") + text}))

    def test_a_path_that_is_not_there(self):
        self.says("core/tunnel/src/window.rs\n", "there is no core/tunnel/src/window.rs")

    def test_a_function_in_lower_case_that_is_not_there(self):
        self.says("    way_of    a relay's header?\n", "there is no symbol way_of in the code")
        self.says("`unmark` is taken off\n", "there is no symbol unmark in the code")

    def test_a_type_that_is_not_there(self):
        self.says("`Heart`\n", "there is no symbol Heart in the code")
        self.says("Heart::beat\n", "there is no type or module Heart in the code")

    def test_a_member_of_another_type(self):
        self.says("Keyring::open\n", "there is no Keyring::open in the code")

    def test_the_pages_of_internals_are_checked(self):
        self.says("`Heart`\n", "there is no symbol Heart in the code", "docs/internals/lanes.md")

    def test_a_link_to_a_page_that_is_not_there(self):
        self.says("[x](docs/none.md)\n", "links to docs/none.md, which is not there")

    def test_citations_of_comments(self):
        code = HOUSE["core/tunnel/src/pair.rs"] + "// law 9, protocol.md 3, fault B2\n"
        found = complaints(files={"core/tunnel/src/pair.rs": code})
        self.assertEqual(len(found), 3, found)


if __name__ == "__main__":
    unittest.main()
