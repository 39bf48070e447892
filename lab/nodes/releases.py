"""Earlier releases of Taut: their versions, and the paths of their built programs (docs/releases.md, tools/releases).

    python3 -m lab.nodes.releases           versions, oldest first
    python3 -m lab.nodes.releases VERSION   its commit
"""

import re
import sys

from ..hosts.programs import ROOT

PLACE = ROOT / "target" / "releases"
# A row of the table: version, commit.
_ROW = re.compile(r"^\| (\d+\.\d+\.\d+) \| ([0-9a-f]{40}) \|", re.MULTILINE)


def listed():
    """Returns {version: commit}, oldest first, from docs/releases.md."""
    return dict(_ROW.findall((ROOT / "docs" / "releases.md").read_text(encoding="utf-8")))


def previous():
    """Returns the version of the latest release."""
    return list(listed())[-1]


def programs(version):
    """Returns the directory with the programs of a release."""
    return PLACE / version


def lacking(version):
    """Returns why the programs of a release cannot run here, or an empty string."""
    if (programs(version) / "taut").is_file():
        return ""
    return f"the programs of release {version} are not built: run tools/releases {version}, which needs the commit in this clone's history"


def main(words):
    versions = listed()
    if not words:
        print("\n".join(versions))
    elif words[0] in versions:
        print(versions[words[0]])
    else:
        sys.exit(f"there is no release {words[0]} in docs/releases.md")


if __name__ == "__main__":
    main(sys.argv[1:])
