"""What this machine has built: the Rust test programs of sys/, and a Python with pytest."""

import subprocess
import sys
import tomllib
from pathlib import Path

from ...hosts.programs import ROOT
from ...hosts.wait import LabError

# Tests that fail on a kernel for a reason that docs/kernels.md names, by series.
KNOWN = Path(__file__).with_name("known.toml")


def test_programs():
    """Returns (name, program, folder of its crate) of each test program of sys/. Cargo builds those that are not up to date."""
    sys.path.insert(0, str(ROOT / "tools"))
    import rust_tests  # noqa: PLC0415

    words = ". tools/env && find_rust && exec cargo test --workspace --locked --profile ci --no-run --lib --tests --message-format=json-render-diagnostics"
    done = subprocess.run(["bash", "-c", words], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise LabError("the tests cannot be built: cargo says why above")
    found = []
    for name, command, folder in rust_tests.programs(done.stdout.splitlines()):
        if Path(folder).parent == ROOT / "sys":
            found.append((f"{Path(folder).name}/{name}", command[0], folder))
    return sorted(found)


def known(series):
    """Returns the tests that fail on this kernel for a known reason, as `program::test`."""
    return tomllib.loads(KNOWN.read_text(encoding="utf-8")).get(series, {}).get("tests", [])


def python_with_pytest():
    """Returns the Python that runs the lab's tests, or None."""
    done = subprocess.run(["bash", "-c", ". tools/env && python_for_tests"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    return done.stdout.strip() or None
