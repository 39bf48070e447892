"""Tests of manuals.py, helptext.py and completions.py: python3 tools/test_manuals.py

The tests of the built programs run only if TAUT_BIN_DIR names their folder, as in the lab: programs older than the source would fail them.
"""

import contextlib
import io
import os
import random
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import completions
import helptext
import manuals
from helptext import Command, Option, Program

ROOT = Path(__file__).resolve().parent.parent
BUILT = Path(os.environ["TAUT_BIN_DIR"]) if "TAUT_BIN_DIR" in os.environ else None
NOWHERE = "--nowhere-at-all"
# Words and options by which a command of the coordinator that is accepted fails, because no coordinator and no such folder exists.
UNREACHABLE = {"--api": "http://127.0.0.1:1", "--token": "tautop-" + 43 * "A", "--state": "/nonexistent/state"}


def run(*words):
    """Runs a program that is expected to fail; returns its exit status and what it wrote to standard error."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    return done.returncode, done.stderr


def complete(script, name, *words):
    """The completions of the last word by the bash script of a program."""
    function = "_" + name.replace("-", "_")
    code = f'. {script}; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); {function}; printf "%s\\n" "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "--norc", "-c", code, "bash", *words], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.split()


class HelpTextTest(unittest.TestCase):
    def test_options_are_read_with_names_value_and_text(self):
        found = helptext.blocks(
            [
                "Sends requests. It",
                "goes on.",
                "",
                "  -c, --count N    send N requests",
                "--socket-count N sockets",
                "  --listen ADDR:PORT",
                "                   where it listens;",
                "                   any port",
                "  --key FILE",
                "  --json           print JSON",
                "WAY  an endpoint",
            ]
        )
        expected = [
            "Sends requests. It goes on.",
            Option(("-c", "--count"), "N", "send N requests"),
            Option(("--socket-count",), "N", "sockets"),
            Option(("--listen",), "ADDR:PORT", "where it listens; any port"),
            Option(("--key",), "FILE", "where it listens; any port"),
            Option(("--json",), None, "print JSON"),
            ("WAY", "an endpoint"),
        ]
        self.assertEqual(found, expected)

    def test_a_folder_with_some_of_the_programs_gets_their_pages(self):
        with tempfile.TemporaryDirectory() as place:
            program, pages = Path(place, "taut-relay"), Path(place, "pages")
            program.write_text('#!/bin/sh\necho "taut-relay: a relay 1.0"; echo; echo "  taut-relay run  carries packets"\n')
            program.chmod(0o755)
            with contextlib.redirect_stdout(io.StringIO()) as said:
                manuals.main(place, pages)
            self.assertIn("of taut-relay are in", said.getvalue())
            self.assertEqual([file.name for file in (pages / "man").rglob("*.8")], ["taut-relay.8"])
            program.unlink()
            with self.assertRaisesRegex(SystemExit, "has none of taut, "):
                manuals.main(place, pages)

    def test_usage_lines_name_options(self):
        found = helptext.usage_options("taut wg [-f|--foreground] [-4|-6] [--relay HOST[:PORT]] [NAME[:PORT]] [--json] INTERFACE")
        expected = [Option(("-f", "--foreground")), Option(("-4",)), Option(("-6",)), Option(("--relay",), "HOST[:PORT]"), Option(("--json",))]
        self.assertEqual(found, expected)

    def test_an_option_that_a_usage_line_names_belongs_to_that_line_only(self):
        page = [Option(("--force",), None, "f"), Option(("--json",), None, "j")]
        command = Command("keys", "", ["p keys list", "p keys remove ID [--force]", "p other [--state DIR]"], page)
        names = {verb: [option.names[0] for option in options] for verb, options in command.verbs().items()}
        self.assertEqual(names, {"list": ["--json"], "remove": ["--force", "--json"]})
        self.assertEqual([option.names[0] for option in command.options()], ["--json", "--force"])

    def test_an_option_belongs_to_the_verbs_that_the_sentence_before_it_names(self):
        page = helptext.blocks(["`make` makes one. `list` and `end` take this:", "", "--json  print JSON"])
        command = Command("tokens", "", ["p tokens list", "p tokens end ID", "p tokens make [--state DIR]"], page)
        names = {verb: [option.names[0] for option in options] for verb, options in command.verbs().items()}
        self.assertEqual(names, {"list": ["--json"], "end": ["--json"], "make": ["--state"]})


class OutputTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        ping = Command("ping", "say it's there: [really]", ["prog ping PEER [-4|-6]"], ["The peer's \\ name.", Option(("--dir",), "DIR", "a: [b]")])
        keys = Command("keys", "list keys", ["prog keys list", "prog keys make [--once]"], [])
        self.program = Program("prog", 1, "does things", "1.0", [ping, keys], ["Exit status: 0 success."])

    def write(self, name, text):
        (self.folder / name).write_text(text)
        return self.folder / name

    def test_bash_completes_commands_verbs_options_and_folders(self):
        script = self.write("prog", completions.bash(self.program))
        (self.folder / "inner").mkdir()
        self.assertEqual(complete(script, "prog", "prog", "p"), ["ping"])
        self.assertEqual(complete(script, "prog", "prog", "keys", "m"), ["make"])
        self.assertEqual(complete(script, "prog", "prog", "keys", "make", "--o"), ["--once"])
        self.assertEqual(complete(script, "prog", "prog", "keys", "list", "--o"), [])
        self.assertEqual(complete(script, "prog", "prog", "ping", "--dir", f"{self.folder}/i"), [f"{self.folder}/inner"])
        self.assertEqual(complete(script, "prog", "prog", "ping", "-"), ["--dir", "-4", "-6", "--help"])

    def test_a_page_has_no_line_that_troff_takes_for_a_request(self):
        self.assertEqual(manuals.escape(".x `y-z` \\"), "\\&.x \\fBy\\-z\\fR \\e")
        check_page(self, self.write("prog.1", manuals.page(self.program)))

    def test_shells_accept_the_scripts(self):
        for shell in ("bash", "zsh", "fish"):
            check_script(self, shell, self.write(f"prog.{shell}", getattr(completions, shell)(self.program)))


def check_page(test, path):
    if not shutil.which("groff"):
        test.skipTest("groff is not installed")
    done = subprocess.run(["groff", "-k", "-z", "-ww", "-man", path], capture_output=True, text=True, timeout=60)
    test.assertEqual((done.returncode, done.stderr), (0, ""), path)


def check_script(test, shell, path):
    with test.subTest(shell=shell):
        if not shutil.which(shell):
            test.skipTest(f"{shell} is not installed")
        test.assertEqual(run(shell, "-n", path), (0, ""))


@unittest.skipUnless(BUILT, "TAUT_BIN_DIR is not set")
class BuiltProgramsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.programs = helptext.read(BUILT)
        cls.files = manuals.files(cls.programs)
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        for name, text in cls.files.items():
            (cls.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (cls.folder / name).write_text(text)

    def program(self, name):
        return next(program for program in self.programs if program.name == name)

    def test_every_command_and_option_is_in_each_output(self):
        for program in self.programs:
            page = self.files[f"man/man{program.section}/{program.name}.{program.section}"]
            outputs = [page, *(self.files[f"completions/{name}"] for name in shell_files(program.name))]
            self.assertGreater(len(program.commands), 3)
            for command in program.commands:
                for text in outputs:
                    self.assertIn(manuals.escape(command.name) if text is page else command.name, text)
                for option in command.options():
                    for name in option.names:
                        self.assertIn(f"\\fB{manuals.escape(name)}\\fR", page)
                        self.assertIn(name, outputs[1])
                        self.assertIn(f"{name}[", outputs[2])
                        flag = f"-l {name[2:]} " if name.startswith("--") else f"-s {name[1:]} "
                        self.assertIn(flag, outputs[3])

    def test_every_option_has_a_text(self):
        for program in self.programs:
            for command in program.commands:
                for option in command.options():
                    with self.subTest(command=f"{program.name} {command.name}", option=option.names[0]):
                        self.assertTrue(program.text(option))

    def test_bash_completes_every_command_and_option(self):
        for program in self.programs:
            script = self.folder / "completions/bash" / program.name
            self.assertEqual(complete(script, program.name, program.name, "")[: len(program.commands)], [command.name for command in program.commands])
            for command, verb, options, _ in completions.choices(program):
                words = [program.name, command, verb, "-"] if verb else [program.name, command, "-"]
                self.assertEqual(complete(script, program.name, *words), completions.names(options))

    def test_bash_completes_levels_areas_formats_and_the_names_of_peers(self):
        script = self.folder / "completions/bash/taut"
        text = next(option.text for command in self.program("taut").commands if command.name == "log" for option in command.options() if "--area" in option.names)
        self.assertEqual(re.findall("[a-z]+", text.partition(": ")[2].replace(" or ", " ")), completions.AREAS.split())
        self.assertEqual(complete(script, "taut", "taut", "log", "--area", "p"), ["path", "portmap"])
        for option in ("--level", "--priority", "--record"):
            self.assertEqual(complete(script, "taut", "taut", "log", option, ""), completions.LEVELS.split())
        self.assertEqual(complete(self.folder / "completions/bash/taut-relay", "taut-relay", "taut-relay", "serve", "--log-format", ""), ["text", "json"])
        # The first lines of `taut hosts` are those of this node, whose path nobody asks for.
        hosts = self.write_program("taut", "printf '%s\\n' '100.64.0.1 own' 'fd00::1 own' '100.64.0.2 nas' 'fd00::2 nas'")
        for words in (("log", "--peer", ""), ("why", "")):
            done = subprocess.run(
                ["bash", "--norc", "-c", f'. {script}; COMP_WORDS=(taut "$@"); COMP_CWORD=$#; _taut; echo "${{COMPREPLY[@]}}"', "bash", *words],
                capture_output=True, text=True, timeout=60, check=True, env=os.environ | {"PATH": f"{hosts}:{os.environ['PATH']}"},
            )
            self.assertEqual(done.stdout.split(), ["nas"], words)

    def write_program(self, name, code):
        """Writes a shell script as a program; returns its folder."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        (Path(folder.name) / name).write_text(f"#!/bin/sh\n{code}\n")
        (Path(folder.name) / name).chmod(0o755)
        return folder.name

    def test_pages_and_scripts_are_valid(self):
        for name in self.files:
            if name.startswith("man/"):
                check_page(self, self.folder / name)
            else:
                check_script(self, name.split("/")[1], self.folder / name)

    def test_taut_accepts_what_its_help_names_and_nothing_else(self):
        source = "".join(path.read_text() for path in sorted((ROOT / "apps/taut/src").rglob("*.rs")))
        program = self.program("taut")
        listed = {name for command in program.commands for option in command.options() for name in option.names}
        candidates = listed | set(re.findall(r'"(--[a-z][a-z-]+|-[a-zA-Z0-9])"', source)) - {"--help", "-h", "--version", "-V"}
        # Every verb takes it: it is read before the verb's own words.
        candidates.discard("--network")
        for command in program.commands:
            if command.name == "help":
                continue
            # The parser reads from left to right and stops at the first flag that it does not know, so the verb does nothing.
            own = {name for option in command.options() for name in option.names}
            accepted = {name for name in asked(own, candidates, command.name) if f"no flag `{name}`" not in run(BUILT / "taut", command.name, name, "1", NOWHERE)[1]}
            self.assertEqual(accepted, own, command.name)

    def test_taut_relay_accepts_what_its_help_names_and_nothing_else(self):
        source = (ROOT / "apps/relay/src/cli.rs").read_text()
        known = {f"--{name}" for name in re.findall(r'"([a-z-]+)"', re.search(r"OPTIONS: [^=]*= \[(.*?)\]", source, re.S)[1])}
        listed = {name for command in self.program("taut-relay").commands for option in command.options() for name in option.names}
        self.assertEqual(known - {"--help", "--version"}, listed)
        for name in listed:
            self.assertNotIn(f"`{name}`", run(BUILT / "taut-relay", "serve", name, "1", NOWHERE)[1])

    def test_taut_coordinator_accepts_what_its_help_names_and_nothing_else(self):
        source = (ROOT / "apps/coordinator/src/cli/arguments.rs").read_text()
        valued, switches = (
            {f"--{name}" for name in re.findall(r'"([a-z0-9-]+)"', re.search(rf"{table}: [^=]*=\s*\[(.*?)\]", source, re.S)[1])}
            for table in ("VALUED", "SWITCHES")
        )
        switches -= {"--help", "--version"}
        program = self.program("taut-coordinator")
        listed = {name for command in program.commands for option in command.options() for name in option.names}
        self.assertEqual(valued | switches, listed)
        for command, verb, options, _ in completions.choices(program):
            if command in ("serve", "simulate", "openapi", "version"):
                # These do something when their options are right, so they are not asked.
                continue
            operands = operands_of(program, command, verb)
            own = {name for option in options for name in option.names}
            accepted = {name for name in asked(own, valued | switches, (command, verb)) if self.coordinator_accepts(command, verb, operands, name, name in valued)}
            self.assertEqual(accepted, own, (command, verb))

    def coordinator_accepts(self, command, verb, operands, option, valued):
        """Whether a command has an option; it is run so that it fails after its options are read, before it does anything."""
        given = [option, UNREACHABLE.get(option, "1")] if valued else [option]
        words = [command, *([verb] if verb else []), *operands, *given]
        _, error = run(BUILT / "taut-coordinator", *words, *self.unreachable(command, verb, option))
        return f"no option `{option}`" not in error

    def unreachable(self, command, verb, option):
        options = completions_of(self.program("taut-coordinator"), command, verb)
        return [word for name, value in UNREACHABLE.items() if name != option and name in options for word in (name, value)]


def asked(own, all_names, command):
    """The options with which a command is tried: its own, and three of the others; all of them with TAUT_THOROUGH, which takes a minute."""
    others = sorted(all_names - own)
    return own | set(others if os.environ.get("TAUT_THOROUGH") else random.Random(repr(command)).sample(others, min(3, len(others))))


def shell_files(name):
    return f"bash/{name}", f"zsh/_{name}", f"fish/{name}.fish"


def completions_of(program, command, verb):
    return next(completions.names(options) for name, word, options, _ in completions.choices(program) if (name, word) == (command, verb))


def operands_of(program, command, verb):
    """A word for each operand of a command, such as NAME."""
    usages = next(found.own_usages() for found in program.commands if found.name == command)
    usage = next(usage for usage in usages if verb is None or usage.split()[2] == verb)
    # Neither options in brackets nor those that a command needs.
    plain = re.sub(r"\[[^\]]*\]|--[a-z-]+ [A-Z-]+", "", usage)
    return ["7" for _ in re.findall(r"\b[A-Z][A-Z-]*", plain)]


if __name__ == "__main__":
    unittest.main()
