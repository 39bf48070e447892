"""Lines that the demo prints while it runs."""

import sys


def print_line(text):
    print(f"demo: {text}", flush=True)


def progress(text):
    """Prints a line that the next one overwrites on a terminal; a plain line elsewhere. None ends it."""
    if not sys.stdout.isatty():
        if text:
            print_line(text)
        return
    print("\n" if text is None else f"\r\033[Kdemo: {text}", end="", flush=True)


def show(node, *words):
    """Prints a command of the CLI and its output."""
    print(f"\n{node.name}# taut {' '.join(words)}\n{node.taut(*words).stdout}", flush=True)


def show_system(node, *argv):
    """Prints a command of the system and its output."""
    print(f"\n{node.name}# {' '.join(argv)}\n{node.host.run(*argv).stdout}", flush=True)
