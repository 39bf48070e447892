"""The manual pages and shell completions of the built programs: tools/test_manuals.py."""

import os
import re
import sys

import pytest

from lab.hosts.namespace import call
from lab.hosts.programs import ROOT, binary


@pytest.mark.programs
def test_pages_and_completions_agree_with_the_programs():
    environment = {**os.environ, "TAUT_BIN_DIR": str(binary("taut").parent)}
    output = call(sys.executable, ROOT / "tools/test_manuals.py", "-v", "BuiltProgramsTest", env=environment, timeout=500).stderr
    # Each shell that is not installed skips its scripts; the class as a whole is not skipped.
    assert int(re.search(r"^Ran (\d+) tests", output, re.MULTILINE)[1]) > 5
    assert "TAUT_BIN_DIR is not set" not in output
