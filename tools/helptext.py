"""Reads the help of Taut's programs, the one source of the manual pages and the shell completions."""

import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

OPTION = re.compile(r"^(\s*)(-{1,2}[\w-]+(?:, -{1,2}[\w-]+)*)(?: ([A-Z][A-Z0-9:\[\]|-]*))?(?:\s+(\S.*))?$")
# A line with two columns: a term of at most three words, two spaces or more, and the text.
ITEM = re.compile(r"^(\s*)(\S+(?: \S+){0,2})\s{2,}(\S.*)$")
IN_USAGE = re.compile(r"(?<![\w-])(-{1,2}[a-z0-9][\w-]*)(?: ([A-Z][A-Z0-9:\[\]]*|\d[\w./]*))?")
# What `--json` does where the help only names it.
JSON_TEXT = "print one JSON object, with a schema version"
# Indentation of the further lines of an option's text.
CONTINUED = 10


@dataclass
class Option:
    """An option: all its names, the name of its value (None for a switch) and its text."""

    names: tuple
    value: str | None = None
    text: str = ""
    # The words in backticks of the sentence that introduces the option, as in "`list` and `revoke` take these options:".
    introduced: tuple = field(default=(), compare=False)


@dataclass
class Command:
    """A command of a program: its usage lines, and its help in blocks: a paragraph, an Option or a pair (term, text)."""

    name: str
    summary: str
    usages: list
    blocks: list = field(default_factory=list)
    # The command that has the same help and comes before this one.
    same_as: str | None = None

    def own_usages(self):
        """The usage lines of this command; the others are those of commands that share its page."""
        return [usage for usage in self.usages if usage.split()[1] == self.name]

    def options(self):
        """The options of the command."""
        found = {}
        for usage in self.own_usages():
            found |= {option.names: option for option in self.options_of(usage)}
        return list(found.values())

    def verbs(self):
        """The words after the command that choose what it does, such as `list` and `create`, with the options of each."""
        words = {usage: usage.split()[2:3] for usage in self.own_usages()}
        return {word[0]: self.options_of(usage) for usage, word in words.items() if word and re.fullmatch("[a-z][a-z-]*", word[0])}

    def options_of(self, usage):
        """The options of one usage line: those that it names, and those that no usage line of the page names."""
        here = {name for option in usage_options(usage) for name in option.names}
        elsewhere = {name for line in self.usages for option in usage_options(line) for name in option.names} - here
        found = [option for option in self.page_options() if not elsewhere & set(option.names)]
        verbs = {line.split()[2] for line in self.own_usages() if len(line.split()) > 2}
        return [option for option in found if not verbs & set(option.introduced) or usage.split()[2] in option.introduced]

    def page_options(self):
        """All options of the page: those with a line of their own, then those that only usage lines name."""
        listed = [block for block in self.blocks if isinstance(block, Option)]
        names = {name for option in listed for name in option.names}
        further = {}
        for usage in self.usages:
            further |= {option.names: option for option in usage_options(usage) if not names & set(option.names)}
        return listed + list(further.values())


@dataclass
class Program:
    """A program: its summary, its commands, and the paragraphs and options of its overview."""

    name: str
    section: int
    summary: str
    version: str
    commands: list
    blocks: list

    def text(self, option):
        """The text of an option. If its command only names it, the text is that of the overview or of another command."""
        listed = [option, *(block for block in self.blocks if isinstance(block, Option))]
        listed += [other for command in self.commands for other in command.options()]
        return next((other.text for other in listed if other.names == option.names and other.text), JSON_TEXT if option.names == ("--json",) else "")


def usage_options(usage):
    """The options that a usage line names; alternatives such as `-f|--foreground` are one option, `-4|-6` are two."""
    found = []
    for part in re.findall(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]", usage):
        names = IN_USAGE.findall(part)
        long = [name for name, _ in names if name.startswith("--")]
        if len(names) == 2 and len(long) == 1 and "|" in part:
            found.append(Option(tuple(name for name, _ in names), names[-1][1] or None))
        else:
            found += [Option((name,), value or None) for name, value in names]
    return found


def blocks(lines):
    """The blocks of a help text: paragraphs, options and items."""
    found, paragraph, last = [], [], None

    def end():
        if paragraph:
            found.append(" ".join(paragraph))
            paragraph.clear()

    for line in lines:
        indent = len(line) - len(line.lstrip())
        if not line.strip():
            end()
            last = None
        elif last is not None and indent >= CONTINUED and not line.lstrip().startswith("--"):
            last[-1] = f"{last[-1]} {line.strip()}".strip()
        elif match := OPTION.match(line):
            end()
            last = [tuple(match[2].split(", ")), match[3], match[4] or ""]
            found.append(last)
        elif match := ITEM.match(line):
            end()
            last = [match[2], match[3]]
            found.append(last)
        else:
            last = None
            if line.startswith(("Exit status:", "Environment:")):
                end()
            paragraph.append(line.strip())
    end()
    for before, block in zip(found, found[1:]):
        # Two options in a row that have one text, such as the files of a certificate and its key.
        if len(block) == len(before) == 3 and isinstance(block, list) and not block[2]:
            block[2] = before[2]
    found = [block if isinstance(block, str) else Option(*block) if len(block) == 3 else tuple(block) for block in found]
    words = ()
    for block in found:
        if isinstance(block, str):
            words = tuple(re.findall("`([a-z-]+)`", block.rsplit(". ", 1)[-1])) if block.endswith(":") else ()
        elif isinstance(block, Option):
            block.introduced = words
    return found


def ask(program, *words):
    """What a program prints on standard output."""
    done = subprocess.run([program, *words], capture_output=True, text=True, timeout=60, check=True, stdin=subprocess.DEVNULL)
    return done.stdout


def read_taut(program):
    """The help of `taut`: an overview of the verbs, and a page for each."""
    head, _, rest = ask(program, "help").partition("\n\n")
    lines = [line for line in rest.splitlines() if not line.startswith("usage: ")]
    verbs = [match for line in lines if (match := re.match(r"^  ([a-z][a-z-]*)\s+(\S.*)$", line))]
    rest = [line for line in lines if not re.match(r"^  [a-z]", line)]
    commands = []
    for match in verbs:
        if match[1] == "help":
            commands.append(Command("help", "print the overview, or the help of a verb", ["taut help [VERB]"]))
            continue
        page = ask(program, "help", match[1]).splitlines()
        usage = next(line for line in page if line.startswith("usage: "))
        body = page[page.index(usage) + 1 :]
        commands.append(Command(match[1], match[2], [usage.removeprefix("usage: ")], blocks(body)))
    return Program("taut", 1, head.partition(": ")[2].strip(), version(program), commands, blocks(rest))


def read_coordinator(program):
    """The help of `taut-coordinator`: an overview of the commands, and a page for each or for several."""
    overview = ask(program, "--help")
    head, _, rest = overview.partition("\n\n")
    entry = re.compile(r"^  taut-coordinator (\S+)((?: [A-Z…]+)*)\s+(\S.*)$")
    commands, pages = [], {}
    for line in rest.splitlines():
        if not (match := entry.match(line)):
            continue
        name, words, summary = match.groups()
        page = ask(program, name, "--help")
        if page == overview:
            commands.append(Command(name, summary, [f"taut-coordinator {name}{words}{in_parentheses(summary)}"]))
            continue
        usages, _, body = page.partition("\n\n")
        commands.append(Command(name, summary, usages.splitlines(), blocks(body.splitlines()), pages.get(page)))
        pages.setdefault(page, name)
    rest = [line for line in rest.splitlines() if not entry.match(line)]
    return Program("taut-coordinator", 8, head.partition(": ")[2].strip(), version(program), commands, blocks(rest))


def read_relay(program):
    """The help of `taut-relay`: one text, in which the options of a command follow its line."""
    head, _, rest = ask(program, "--help").partition("\n\n")
    commands, body, end = [], {}, []
    for line in rest.splitlines():
        if match := re.match(r"^  taut-relay (\S+)\s+(\S.*)$", line):
            commands.append(Command(match[1], match[2], [f"taut-relay {match[1]}{in_parentheses(match[2])}"]))
            body[match[1]] = []
        elif commands and line.startswith("   "):
            body[commands[-1].name].append(line)
        else:
            end.append(line)
    for command in commands:
        command.blocks = blocks(body[command.name])
        if command.blocks:
            command.usages = [f"taut-relay {command.name} [OPTIONS]"]
    name, _, summary = head.partition(": ")
    return Program(name, 8, summary.strip(), version(program), commands, blocks(end))


def in_parentheses(summary):
    """The options that a summary names in parentheses, as a usage line has them."""
    return "".join(f" [{' '.join(filter(None, found))}]" for found in IN_USAGE.findall(summary))


def version(program):
    return ask(program, "version").splitlines()[0].split()[-1]


READERS = {"taut": read_taut, "taut-coordinator": read_coordinator, "taut-relay": read_relay}


def read(folder):
    """The help of the programs that are in `folder`."""
    return [reader(Path(folder) / name) for name, reader in READERS.items() if (Path(folder) / name).exists()]
