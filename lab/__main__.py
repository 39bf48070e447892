"""The command line of the lab: `python3 -m lab check|clean|list|peers|shell`, and `bench|report|compare|scenario` of lab.compare.command."""

import argparse
import os
import sys

from .compare import command
from .hosts import leftovers, needs
from .nodes.systems import catalog


def check(args):
    """Lists what this machine lacks; exit status 1 if it lacks anything."""
    lacks = needs.missing(*args.programs)
    for lack in lacks:
        print(f"lab: {lack}", file=sys.stderr)
    return 1 if lacks else 0


def clean(_):
    """Removes what crashed runs left; running labs stay."""
    removed = leftovers.clean()
    for name in removed:
        print(f"removed {name}")
    print(f"{len(removed)} leftovers removed")
    return 0


def show(_):
    """Lists the hosts of all labs."""
    for namespace, host, alive in leftovers.namespaces():
        print(f"{host:12} {namespace}{'' if alive else '  (left over: python3 -m lab clean)'}")
    return 0


def peers(args):
    """Lists every known system: its version, how to install it, why it cannot be run here."""
    print(catalog.document() if args.json else catalog.table())
    return 0


def shell(args):
    """Starts a shell (or the given command) in a host of a running lab."""
    found = [namespace for namespace, host, alive in leftovers.namespaces() if alive and host == args.host]
    if len(found) != 1:
        which = "is not a host" if not found else f"is the name of {len(found)} hosts"
        print(f"lab: {args.host} {which} in the running labs; see: python3 -m lab list", file=sys.stderr)
        return 1
    command = args.command or [os.environ.get("SHELL", "/bin/sh")]
    os.execvp("ip", ["ip", "netns", "exec", found[0], *command])


def main():
    parser = argparse.ArgumentParser(prog="python3 -m lab", description="Hosts in network namespaces that run the real programs.")
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    for run in (check, clean, show, peers, shell):
        name = "list" if run is show else run.__name__
        verb = verbs.add_parser(name, help=run.__doc__)
        verb.set_defaults(run=run)
        if run is check:
            verb.add_argument("programs", nargs="*", choices=[[], *needs.PROGRAMS], help="programs to check for, besides those that every test needs")
        if run is peers:
            verb.add_argument("--json", action="store_true", help="print JSON (lab/nodes/systems/catalog.py)")
        if run is shell:
            verb.add_argument("host")
            verb.add_argument("command", nargs=argparse.REMAINDER)
    command.add(verbs)
    args = parser.parse_args()
    sys.exit(args.run(args))


if __name__ == "__main__":
    main()
