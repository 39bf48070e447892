#!/usr/bin/env python3
"""Writes the manual pages and the shell completions of Taut's programs from their help.

tools/manuals.py [PROGRAMS [OUTPUT]]: PROGRAMS is the folder of the built programs (default target/release), which may have some of them, OUTPUT the folder to write to
(default target/manuals). The programs are run with `help` and `--help` only.
"""

import re
import sys
from pathlib import Path

import completions
import helptext
from helptext import Option, Program

ROOT = Path(__file__).resolve().parent.parent
SEE_ALSO = {"taut": ("taut-wg(8)", "taut-coordinator(8)", "taut-relay(8)", "wg(8)"), "taut-wg": ("taut(1)", "wg(8)", "wg-quick(8)")}
# Paragraphs of the help that have a section of their own in a manual page.
SECTIONS = {"Exit status:": "EXIT STATUS", "Environment:": "ENVIRONMENT"}


def escape(text):
    """The text for troff. What stands in backticks, options and names of values in capitals become bold and italic."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("…", "...").replace("'", "\\(aq")
    text = re.sub(r"`([^`]+)`", r"\\fB\1\\fR", text)
    return "\\&" + text if text.startswith((".", "\\(aq")) else text


def bold(text):
    return f"\\fB{escape(text)}\\fR"


def usage(line):
    """A usage line: the command is bold, the rest as it stands."""
    words = line.split(" ")
    count = next((at for at, word in enumerate(words) if not re.fullmatch("[a-z][a-z-]*", word)), len(words))
    return f"{bold(' '.join(words[:count]))} {escape(' '.join(words[count:]))}".rstrip()


def option(program, option):
    value = f" \\fI{escape(option.value)}\\fR" if option.value else ""
    return [".TP", ", ".join(bold(name) for name in option.names) + value, escape(program.text(option)) or "\\&"]


def body(program, command):
    """Blocks of a command, and then the options that only its usage lines name."""
    lines = []
    for block in command.blocks:
        if isinstance(block, Option):
            lines += option(program, block)
        elif isinstance(block, tuple):
            lines += [".TP", bold(block[0]), escape(block[1])]
        else:
            lines += [".PP", escape(block)]
    listed = [block for block in command.blocks if isinstance(block, Option)]
    for further in command.page_options():
        if further not in listed:
            lines += option(program, further)
    return lines


def sections(found):
    """The sections that paragraphs of the help belong to."""
    lines = []
    for start, title in SECTIONS.items():
        texts = [block for block in found if isinstance(block, str) and block.startswith(start)]
        for text in texts:
            rest = text.removeprefix(start).strip()
            lines += [f".SH {title}", escape(rest[:1].upper() + rest[1:] if not rest.startswith("TAUT") else rest)]
    return lines


def head(program):
    title = f'.TH {program.name.upper()} {program.section} "" "Taut {program.version}" "Taut manual"'
    return ['.\\" Made by tools/manuals.py from the help of the program.', title, ".SH NAME", f"{program.name} \\- {escape(program.summary)}"]


def page(program):
    """The manual page of a program with commands."""
    lines = head(program) + [".SH SYNOPSIS", f"{bold(program.name)} \\fICOMMAND\\fR [\\fIOPTIONS\\fR]", ".SH DESCRIPTION"]
    for command in program.commands:
        lines += [".TP", bold(command.name), escape(command.summary)]
    plain = [block for block in program.blocks if isinstance(block, str) and not block.startswith(tuple(SECTIONS))]
    listed = [block for block in program.blocks if isinstance(block, Option)]
    for text in plain:
        # The sentence in front of the options of the overview is the title of their section.
        lines += [f".SH {escape(text[:-1].upper())}"] if listed and text.endswith(":") else [".PP", escape(text)]
    lines += [line for block in listed for line in option(program, block)]
    lines.append(".SH COMMANDS")
    for command in program.commands:
        lines += [f'.SS "{escape(program.name)} {escape(command.name)}"', escape(sentence(command.summary))]
        if command.same_as:
            lines += [".PP", f"See {bold(command.same_as)}."]
            continue
        for line in command.usages:
            lines += [".PP", usage(line)]
        lines += body(program, command)
    return finish(program, lines + sections(program.blocks))


def sentence(text):
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def wg_page(program, command):
    """The page of `taut-wg`, the name under which `taut wg` is a program of its own."""
    alone = Program("taut-wg", 8, command.summary, program.version, program.commands, program.blocks)
    lines = head(alone) + [".SH SYNOPSIS"]
    for line in command.usages:
        lines += [usage(line.replace("taut wg", "taut-wg")), ".br", usage(line)]
    exits = [block.partition(". ")[0] + "." for block in program.blocks if isinstance(block, str) and block.startswith("Exit status:")]
    return finish(alone, lines + [".SH DESCRIPTION"] + body(alone, command) + sections(exits))


def finish(program, lines):
    others = SEE_ALSO.get(program.name, ("taut(1)",))
    return "\n".join([*lines, ".SH SEE ALSO", ", ".join(escape(other) for other in others)]) + "\n"


def files(programs):
    """All files by their path below the output folder."""
    found = {}
    for program in programs:
        found[f"man/man{program.section}/{program.name}.{program.section}"] = page(program)
        found[f"completions/bash/{program.name}"] = completions.bash(program)
        found[f"completions/zsh/_{program.name}"] = completions.zsh(program)
        found[f"completions/fish/{program.name}.fish"] = completions.fish(program)
        for command in program.commands:
            if (program.name, command.name) == ("taut", "wg"):
                found["man/man8/taut-wg.8"] = wg_page(program, command)
    return found


def main(folder=ROOT / "target/release", output=ROOT / "target/manuals"):
    programs = helptext.read(folder)
    if not programs:
        sys.exit(f"manuals: {folder} has none of {', '.join(helptext.READERS)}; build with `cargo build --release` first")
    for name, text in files(programs).items():
        path = Path(output) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    print(f"manuals: pages and completions of {', '.join(program.name for program in programs)} are in {output}")


if __name__ == "__main__":
    main(*sys.argv[1:])
