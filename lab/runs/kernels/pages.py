"""Results as text, and their tables in the documents."""

from ...hosts.programs import ROOT
from ...measure import markdown
from . import links, wireguard

BEGIN, END = "<!-- made by make kernels: begin -->", "<!-- made by make kernels: end -->"


def summary(results):
    """Returns the results as tables."""
    blocks = [markdown.table(("kernel", "part", "verdict", "seconds"), _verdicts(results))]
    blocks += [table for table in (wireguard_table(results), links_table(results)) if table]
    return "\n\n".join(blocks)


def _verdicts(results):
    for kernel in results["kernels"]:
        for name, part in kernel["parts"].items():
            yield [kernel["release"], name, "ok" if part["ok"] else "FAILED", f"{part.get('seconds', 0):.0f}"]


def _rows(results, part):
    for kernel in results["kernels"]:
        for row in kernel["parts"].get(part, {}).get("rows", []):
            yield kernel["release"], row


def wireguard_table(results):
    rows = [[release, *(row.get(name, "") for name in wireguard.COLUMNS[1:])] for release, row in _rows(results, "wireguard")]
    return markdown.table(wireguard.COLUMNS, rows) if rows else ""


def links_table(results):
    rows = [links.cells(release, row) for release, row in _rows(results, "links")]
    return markdown.table(links.COLUMNS, rows) if rows else ""


def write(results, placed):
    """Puts the tables into their documents."""
    for name, table in (("interop.md", wireguard_table(results)), ("linkbox.md", links_table(results)), ("kernels.md", kernels_table(results))):
        page = ROOT / "docs" / name
        if table:
            page.write_text(placed(page.read_text(encoding="utf-8"), table, BEGIN, END))


def kernels_table(results):
    """Returns a line per kernel and part."""
    return markdown.table(("kernel", "package", "emulated by", "tests of sys/", "network of two nodes", "tests of the lab", "sandbox"), [_line(kernel) for kernel in results["kernels"]])


def _line(kernel):
    parts = kernel["parts"]
    tests, net, lab = (parts.get(name, {}) for name in ("tests", "network", "lab"))
    counted = f"{tests['passed']} passed, {len(tests['failed'])} failed" if "passed" in tests else ""
    rates = ", ".join(f"{stream['mbit_s']:.0f}" for stream in net.get("streams", []))
    direct = f"direct, {net['pings']} of 20 echoes, {rates} Mbit/s" if net.get("streams") else net.get("error", "")
    passed = f"{sum(verdict == 'passed' for verdict in lab['tests'].values())} of {len(lab['tests'])} passed" if lab.get("tests") else lab.get("error", "")
    sandbox = net.get("sandbox") or {}
    missing = "; without " + ", ".join(one["part"] for one in sandbox["missing"]) if sandbox.get("missing") else ""
    return [kernel["release"], kernel["version"], kernel["accelerator"], counted, direct, passed, f"{', '.join(sandbox.get('on', []))}{missing}"]
