"""The files of a comparison: their paths, and the page of results."""

import subprocess
import sys
from pathlib import Path

from ..hosts.programs import ROOT
from ..hosts.wait import LabError
from . import results

OUT = ROOT / "target" / "bench"
VENV = ROOT / "target" / "venv"
FILE, PAGE = OUT / "results.json", OUT / "report.html"


def beside(file):
    """Returns the path of the page of a file of results."""
    return file.with_name("report.html" if file == FILE else f"{file.stem}.html")


def make(file, page, print_line):
    """Makes the page. Without matplotlib it prints how to install it; the results stay."""
    from .report import page as report

    content = results.load(file)
    try:
        size = report.write(content, page)
    except LabError as error:
        if drawn_elsewhere(file, page):
            return True
        print_line(str(error))
        return False
    print_line(f"written: {shown(page)} ({size / 1e3:,.0f} kB, everything in it; plots also in {shown(page.with_suffix(''))}/)")
    return True


def drawn_elsewhere(file, page):
    """Returns true if the Python of target/venv made the page, in case this one has no matplotlib."""
    python = VENV / "bin" / "python"
    if not python.exists() or Path(sys.prefix).resolve() == VENV.resolve():
        return False
    return subprocess.run([python, "-m", "lab", "report", file.resolve(), "--output", page.resolve()], cwd=ROOT, check=False).returncode == 0


def line_printer(as_json):
    """Returns a function that prints a line of progress at once."""
    return lambda text: print(f"bench: {text}", file=sys.stderr if as_json else sys.stdout, flush=True)


def shown(path):
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
