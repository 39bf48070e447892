#!/usr/bin/env python3
"""Tests of tools/shipping that need neither root nor a build."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.append(str(Path(__file__).resolve().parent.parent))
import packages as packages_tool  # noqa: E402
from lab.nodes import releases  # noqa: E402
from shipping import handshake, images, packages, programs, root, signing, targets, zig  # noqa: E402

DEB = ("deb.preinst", "deb.postinst", "deb.prerm", "deb.postrm")


class Root(unittest.TestCase):
    """Commands in the root."""

    def test_a_command_that_fails_is_named(self):
        failed = mock.Mock(returncode=3)
        for call in (root.run, root.output):
            with mock.patch.object(subprocess, "run", return_value=failed), self.assertRaisesRegex(SystemExit, "`cargo build` in the root .* ended with status 3"):
                call("cargo", "build")


class Scripts(unittest.TestCase):
    """The scripts of packages, with their names filled in."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.stage = Path(folder.name)
        patches = (mock.patch.object(packages, "SOURCE", root.ROOT), mock.patch.object(packages, "SCRIPTS", (root.ROOT / "dist" / "packages",)))
        for patch in patches:
            patch.start()
            self.addCleanup(patch.stop)

    def test_each_is_a_script_of_the_shell_without_a_gap(self):
        for program in (program for program in targets.PROGRAMS if program.name in packages.UNITS):
            for name in (*DEB, "postinstall", "preremove"):
                file = packages.script(program, name, self.stage)
                self.assertNotRegex(Path(file).read_text(), r"@[A-Z]+@", f"{program.name} {name}")
                done = subprocess.run(["sh", "-n", file], capture_output=True, text=True, check=False)
                self.assertEqual((done.returncode, done.stderr), (0, ""), f"{program.name} {name}")

    def run_with_commands(self, script, commands, *words):
        """Runs a script of the node's package with these commands in place of the host's, which note how they are called; /etc and /run are folders of the test. Returns (exit status, calls)."""
        place, calls = self.stage / "root", self.stage / "calls"
        programs_of_test = self.stage / "bin"
        programs_of_test.mkdir()
        for name, body in commands.items():
            (programs_of_test / name).write_text(f'#!/bin/sh\necho "{name} $*" >> {calls}\n{body}\n')
            (programs_of_test / name).chmod(0o755)
        text = Path(packages.script(targets.NODE, script, self.stage)).read_text()
        text = text.replace("/etc/init.d/", f"{place}/etc/init.d/").replace("/run/", f"{place}/run/").replace("/var/lib/", f"{place}/var/lib/").replace("/usr/bin/taut", "true")
        done = subprocess.run(["sh", "-c", text, "script", *words], env={"PATH": f"{programs_of_test}:/usr/bin:/bin"}, check=False)
        return done.returncode, calls.read_text().splitlines() if calls.exists() else []

    def test_fault_l6_a_unit_that_does_not_stop_does_not_keep_the_package(self):
        (self.stage / "root/run/systemd/system").mkdir(parents=True)
        code, calls = self.run_with_commands("deb.prerm", {"systemctl": "exit 1"}, "remove")
        self.assertEqual(code, 0)
        self.assertIn("systemctl stop", calls[0])

    def test_an_upgrade_restarts_also_what_is_about_to_start(self):
        (self.stage / "root/run/systemd/system").mkdir(parents=True)
        listed = 'case "$*" in list-units*activating*) echo "taut.service loaded activating auto-restart Taut" ;; esac'
        commands = {"systemctl": listed, "deb-systemd-invoke": "", "deb-systemd-helper": ""}
        code, calls = self.run_with_commands("deb.postinst", commands, "configure", "0.1.0")
        self.assertEqual((code, calls[-1]), (0, "deb-systemd-invoke restart taut.service"))

    def test_removal_with_openrc_leaves_no_service_in_a_runlevel(self):
        scripts = self.stage / "root/etc/init.d"
        scripts.mkdir(parents=True)
        for name in ("taut", "taut-kill-switch", "taut-relay"):
            (scripts / name).write_text("")
        (scripts / "taut.work").symlink_to("taut")
        _, calls = self.run_with_commands("preremove", {"rc-service": "", "rc-update": ""})
        deleted = {call.split()[-1] for call in calls if call.startswith("rc-update --quiet --all delete")}
        self.assertEqual(deleted, {"taut", "taut.work", "taut-kill-switch"})
        self.assertFalse((scripts / "taut.work").is_symlink())

    def test_a_network_with_openrc_has_flags_of_its_own(self):
        text = (root.ROOT / "dist/openrc/init.d/taut").read_text().replace("/etc/conf.d/", f"{self.stage}/")
        (self.stage / "taut.home").write_text('TAUT_FLAGS="--port 2"\n')
        flags = {}
        for service in ("taut", "taut.work", "taut.home"):
            # OpenRC has read conf.d/taut before.
            script = f'RC_SVCNAME={service}\nTAUT_FLAGS="--port 1"\n{text}\necho "$command_args"'
            flags[service] = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout.split()
        self.assertEqual(flags, {"taut": ["daemon", "--port", "1"], "taut.work": ["daemon", "--network", "work"], "taut.home": ["daemon", "--network", "home", "--port", "2"]})

    def test_a_router_loads_the_kill_switches_before_its_network_starts(self):
        program = self.recorder()
        text = (root.ROOT / "dist/openwrt/taut.init").read_text().replace("PROGRAM=/usr/bin/taut", f"PROGRAM={program}")
        done = subprocess.run(["sh", "-c", f"start() {{ echo started; }}\n{text}\nboot"], capture_output=True, text=True, check=True)
        self.assertEqual((done.stdout, self.calls()), ("started\n", ["kill-switch load"]))

    def test_the_package_of_each_program_with_a_service_has_scripts_that_name_it(self):
        for program in (program for program in targets.PROGRAMS if program.installed in packages.UNITS):
            for kind in program.kinds:
                found = packages.scripts(program, kind, self.stage)["scripts"] if kind != "oci" else {}
                for file in found.values():
                    text = Path(file).read_text()
                    self.assertNotRegex(text, "@[A-Z]+@")
                    self.assertTrue(kind == "deb" or f"/etc/init.d/{program.installed} " in text, file)
        self.assertEqual(targets.TINY.installed, "taut")

    def test_removal_takes_the_kill_switch_of_each_network_away(self):
        program, places = self.recorder(), ("var/lib/taut", "var/lib/taut-work", "var/lib/taut-relay", "var/lib/taut-coordinator", "etc/taut/state", "etc/taut/state-home")
        for place in places:
            (self.stage / place).mkdir(parents=True)
        text = packages.script(targets.TINY, "preremove", self.stage)
        text = re.sub(r"(?<=[ \n])/(var/lib|etc/taut|run)/", rf"{self.stage}/\1/", Path(text).read_text()).replace("/usr/bin/taut", str(program))
        subprocess.run(["sh", "-c", text, "sh", "remove"], check=True)
        removed = [call for call in self.calls() if call.startswith("kill-switch")]
        self.assertEqual(removed, ["kill-switch remove", "kill-switch remove --network work", "kill-switch remove", "kill-switch remove --network home"])

    def recorder(self):
        """Returns a program that writes its arguments down, for `calls`."""
        program = self.stage / "recorder"
        program.write_text(f'#!/bin/sh\necho "$*" >> {self.stage}/calls\n')
        program.chmod(0o755)
        return program

    def calls(self):
        return (self.stage / "calls").read_text().splitlines()

    def test_zsh_finds_completions_of_every_kind_of_package(self):
        folder = self.stage / "manuals/zsh"
        folder.mkdir(parents=True)
        (folder / "_taut").write_text("")
        places = {kind: [one["dst"] for one in packages.pages(targets.NODE, kind, self.stage / "manuals")] for kind in ("deb", "rpm", "apk", "archlinux")}
        self.assertEqual(places.pop("deb"), ["/usr/share/zsh/vendor-completions/_taut"])
        self.assertEqual(set(map(tuple, places.values())), {("/usr/share/zsh/site-functions/_taut",)})

    def test_no_link_of_a_packaged_page_leads_out_of_the_package(self):
        entries = packages.documents(targets.NODE, self.stage)
        names = {Path(file["dst"]).name for file in entries}
        self.assertIn("nats.svg", names)
        links = 0
        for file in entries:
            text = Path(file["src"]).read_text(encoding="utf-8")
            found = re.findall(r"\]\(([^)#]+)", text) if file["src"].endswith(".md") else []
            self.assertEqual([link for link in found if not link.startswith("http") and link not in names], [], file["dst"])
            links += len(found)
        self.assertGreater(links, 100, "links between pages stay")
        releases = (self.stage / "usr/share/doc/taut/releases.md").read_text(encoding="utf-8")
        self.assertIn("(`docs/spec/release.md` in the sources of Taut)", releases)

    def test_a_purge_of_the_node_spares_other_programs(self):
        for name in ("etc/default/taut", "etc/default/taut-work", "var/lib/taut/identity.json", "var/lib/taut-work/identity.json", "etc/taut/taut.toml"):
            self.assertFalse(self.after_purge(name).exists(), name)
        for name in ("etc/default/taut-relay", "var/lib/taut-coordinator/coordinator.db", "var/lib/taut-relay/key", "etc/taut/coordinator.toml", "etc/other"):
            self.assertTrue(self.after_purge(name).exists(), name)

    def after_purge(self, name):
        """Returns the place of a file after a purge of the node from a host that has it."""
        host = self.stage / "host"
        (host / name).parent.mkdir(parents=True, exist_ok=True)
        (host / name).write_text("")
        text = Path(packages.script(targets.NODE, "deb.postrm", self.stage)).read_text()
        script = self.stage / "purge"
        script.write_text(re.sub(r"(?<=[ (])/(?=etc|var|run|usr)", f"{host}/", text))
        subprocess.run(["sh", "-e", script, "purge"], check=True)
        return host / name


class Output(unittest.TestCase):
    def test_a_folder_with_other_files_is_not_emptied(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name) / "mine"
            folder.mkdir()
            (folder / "letter").write_text("")
            with self.assertRaises(root.Failed):
                packages_tool.remove(folder)
            self.assertTrue((folder / "letter").exists())
            (folder / "index.json").write_text("{}")
            packages_tool.remove(folder)
            self.assertFalse(folder.exists())


class Versions(unittest.TestCase):
    def test_a_version_between_releases_sorts_before_the_release_in_every_kind(self):
        found = {kind: packages.version_for(kind, "0.2.0-dev", "202611290037") for kind in targets.KINDS}
        self.assertEqual(found, {kind: f"0.2.0{sign}202611290037" for kind, sign in zip(targets.KINDS, ("~dev", "~dev", "_pre", "dev", "~dev"), strict=True)})
        self.assertEqual({packages.version_for(kind, "0.2.0", "1") for kind in targets.KINDS}, {"0.2.0"})


# Notes how it is called, and links as zig does.
STAND_IN = """
import pathlib, sys
words = sys.argv[2:]
with open(sys.argv[1], "a") as calls: print(*words, file=calls)
if words[0] == "cc" and "bad.o" in words: print("ld.lld: error: no main", file=sys.stderr); sys.exit(1)
if words[0] == "cc": print("ar rcs libc.a\\nwarning: seen\\nld.lld -static -o program crt1.o main.o\\nld.lld -r -o crt1.o a.o", file=sys.stderr)
if words[0] == "ld.lld" and "-T" in words: assert "eh_frame" in pathlib.Path(words[words.index("-T") + 1]).read_text()
"""


class Linker(unittest.TestCase):
    """The command zig of the root, with a stand-in for zig."""

    def run_zig(self, options, *words, place="/", **variables):
        """Returns (exit status, calls of zig, what it printed as errors). The call is made in the folder `place`."""
        with tempfile.TemporaryDirectory() as folder:
            calls, stand_in = Path(folder) / "calls", Path(folder) / "stand_in.py"
            stand_in.write_text(STAND_IN)
            program = f"import sys; from shipping import zig; zig.ZIG = {(sys.executable, str(stand_in), str(calls))!r}; sys.exit(zig.main())"
            done = subprocess.run([sys.executable, "-c", program, *words], cwd=place, env={"PATH": os.environ["PATH"], "PYTHONPATH": str(root.ROOT / "tools"), "LINKER_OPTIONS": options, **variables}, capture_output=True, text=True, check=False)
            return done.returncode, calls.read_text().splitlines(), done.stderr

    def test_a_link_is_done_once_more_with_the_options(self):
        status, calls, errors = self.run_zig("--icf=all -T $WITHOUT_UNWINDING", "cc", "main.o", "-o", "program")
        self.assertEqual((status, errors, calls[0]), (0, "warning: seen\n", "cc main.o -o program"))
        self.assertRegex(calls[1], r"^ld.lld -static -o program crt1.o main.o --icf=all -T /\S+/WITHOUT_UNWINDING$")

    @unittest.skipUnless(shutil.which("cc") and shutil.which("nm"), "the programs cc and nm are missing: apt-get install gcc")
    def test_functions_are_in_the_order_of_their_names(self):
        with tempfile.TemporaryDirectory() as folder:
            source, main, order = (Path(folder) / name for name in ("main.c", "main.o", "order.txt"))
            # Two of a Rust program, as its compiler calls them: base::first and base::second.
            first, second = "_RNvCsgQ8Ryl6OtBZ_4base5first", "_RNvCsgQ8Ryl6OtBZ_4base6second"
            source.write_text(f"int {second}(void) {{ return 2; }} int {first}(void) {{ return 1; }} int main(void) {{ return 0; }}")
            subprocess.run(["cc", "-c", source, "-o", main], check=True)
            order.write_text("# at rest\nbase::second\nmain\nno such function\nbase::first\nmain\n")
            self.assertEqual(zig.ordered([str(main)], ["base::second", "main", "base::first", "main"]), ([second, "main", first], 3))
            shutil.copy(main, Path(folder) / "crt1.o")
            linked = ("--symbol-ordering-file $ORDER", "cc", "main.o", "-o", "program")
            status, calls, errors = self.run_zig(*linked, ORDER=str(order), place=folder)
            self.assertEqual((status, len(calls), errors), (0, 2, "warning: seen\n"))
            # What `make packages` tells of an old list.
            self.assertEqual(programs.placed(Path(folder) / "program.placed"), "3 of 4 functions of tools/shipping/order.txt are in it: the list is old, run `make order`")
            status, calls, errors = self.run_zig(*linked, ORDER=str(order))
            self.assertEqual(status, 1, "main.o is not in that folder, so nm fails")
            self.assertIn("main.o", errors)
            self.assertEqual(len(calls), 1)

    def test_words_in_a_file_are_a_link_too(self):
        with tempfile.NamedTemporaryFile("w") as words:
            words.write("main.o\n-o\nprogram\n")
            words.flush()
            self.assertEqual(len(self.run_zig("--icf=all", "cc", f"@{words.name}")[1]), 2)

    def test_what_does_not_link_is_zig_as_it_is(self):
        for words in (("cc", "-c", "main.c", "-o", "program"), ("version",), ("ar", "rcs", "x.a")):
            self.assertEqual(self.run_zig("--icf=all", *words)[1], [" ".join(words)])
        self.assertEqual(self.run_zig("", "cc", "main.o", "-o", "program")[1], ["cc main.o -o program"])

    def test_a_link_that_fails_or_is_not_told_is_an_error(self):
        self.assertEqual(self.run_zig("--icf=all", "cc", "bad.o", "-o", "program")[::2], (1, "ld.lld: error: no main\n"))
        status, _, errors = self.run_zig("--icf=all", "cc", "main.o", "-o", "other")
        self.assertEqual(status, 1)
        self.assertIn("does not say how it linked other", errors)


@unittest.skipUnless(shutil.which("openssl"), "the program openssl is missing: apt-get install openssl")
class Signatures(unittest.TestCase):
    """fault L6: files with a bad signature are refused."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name) / "packages"
        self.folder.mkdir()
        names = ("taut_1_amd64.deb", "taut_1_x86_64.rpm", "taut_1.cdx.json")
        for name in names:
            (self.folder / name).write_bytes(b"a package")
        self.list_sums(*names)
        (self.folder / signing.RELEASE).write_text("taut-release 1\nversion 0.3.0\nmade 1\n")
        with mock.patch.object(signing, "LOCAL_KEY", Path(folder.name) / "key.pem"), mock.patch.object(root, "say"):
            signing.sign(self.folder)
            self.assertEqual(signing.LOCAL_KEY.stat().st_mode & 0o777, 0o600)
        self.public = self.folder / signing.PUBLIC

    def check(self, *words):
        """Returns (exit status, output, errors) of the command."""
        done = subprocess.run([sys.executable, packages_tool.__file__, "--check", self.folder, *words], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    def assert_refused(self, message):
        """The message is a pattern."""
        status, output, errors = self.check("--key", self.public)
        self.assertEqual((status, output), (1, ""))
        self.assertRegex(errors, f"^packages: .*{message}.*\n    .+\n$")

    def list_sums(self, *names):
        sums = subprocess.run(["sha256sum", *names], cwd=self.folder, capture_output=True, text=True, check=True).stdout
        (self.folder / signing.SUMS).write_text(sums)

    def test_fault_l6_files_as_they_were_signed_pass(self):
        self.assertEqual(self.check("--key", self.public), (0, "signature and checksums are right: 4 files checked\n", ""))

    def test_the_key_of_the_folder_itself_proves_little(self):
        status, _, errors = self.check()
        self.assertEqual(status, 0)
        self.assertIn(f"the folder's own key, {self.public}, which proves only that the files belong together", errors)

    def test_files_that_are_not_there_are_not_checked(self):
        (self.folder / "taut_1_x86_64.rpm").unlink()
        self.assertEqual(self.check("--key", self.public), (0, "signature and checksums are right: 3 files checked; 1 more that SHA256SUMS lists are not here\n", ""))

    def test_a_package_with_checksums_and_their_signature_is_enough(self):
        for name in ("taut_1_x86_64.rpm", "taut_1.cdx.json", signing.RELEASE, signing.signature(signing.RELEASE)):
            (self.folder / name).unlink()
        status, output, _ = self.check("--key", self.public)
        self.assertEqual((status, output.partition(";")[0]), (0, "signature and checksums are right: 1 file checked"))

    def test_a_folder_without_a_package_is_refused(self):
        for file in self.folder.glob("taut_1_*"):
            file.unlink()
        self.assertTrue((self.folder / "taut_1.cdx.json").exists())
        self.assert_refused("has no package that SHA256SUMS lists")

    def test_a_file_that_no_list_names_is_named(self):
        (self.folder / "letter").write_text("")
        status, output, errors = self.check("--key", self.public)
        self.assertEqual((status, output), (0, "signature and checksums are right: 4 files checked\n"))
        self.assertRegex(errors, "^packages: warning: not checked, .*: letter\n$")

    def test_fault_l6_a_package_that_no_list_names_is_refused(self):
        (self.folder / "taut_2_amd64.deb").write_bytes(b"not ours")
        self.assert_refused("taut_2_amd64.deb: named as a package, and SHA256SUMS does not list it")

    def test_fault_l6_a_changed_file_is_refused_and_named(self):
        (self.folder / "taut_1_amd64.deb").write_bytes(b"A package")
        self.assert_refused("the checksum of taut_1_amd64.deb is not the one in SHA256SUMS")

    def test_fault_l6_changed_checksums_are_refused(self):
        (self.folder / "taut_1_amd64.deb").write_bytes(b"A package")
        self.list_sums("taut_1_amd64.deb")
        self.assert_refused("SHA256SUMS.sig is not a signature of SHA256SUMS by the key")

    def test_fault_l6_a_changed_list_of_the_release_is_refused(self):
        (self.folder / signing.RELEASE).write_text("taut-release 1\nversion 9.9.9\nmade 1\n")
        self.assert_refused("RELEASE.sig is not a signature of RELEASE by the key")

    def test_fault_l6_a_signature_of_another_key_is_refused(self):
        other = self.folder.parent / "other.pem"
        signing.openssl("genpkey", "-algorithm", "ed25519", "-out", other)
        self.public = other.with_suffix(".pub")
        signing.openssl("pkey", "-in", other, "-pubout", "-out", self.public)
        self.assert_refused("SHA256SUMS.sig is not a signature of SHA256SUMS by the key .*other.pub")

    def test_what_is_missing_is_named(self):
        for name, message in ((signing.PUBLIC, "there is no key .*/taut-packages.pub"), ("SHA256SUMS.sig", "has no SHA256SUMS.sig, the signature of SHA256SUMS"), ("SHA256SUMS", "has no SHA256SUMS")):
            (self.folder / name).rename(self.folder.parent / "away")
            self.assert_refused(message)
            (self.folder.parent / "away").rename(self.folder / name)
        self.public = self.folder / "taut_1_amd64.deb"
        self.assert_refused("taut_1_amd64.deb is not a public key")
        self.folder = self.folder / "none"
        self.assert_refused("there is no folder .*/none")

    def test_a_key_without_a_folder_is_a_usage_error(self):
        done = subprocess.run([sys.executable, packages_tool.__file__, "--key", self.public], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--key is for --check", done.stderr)


class Images(unittest.TestCase):
    def test_an_archive_is_the_same_each_time_and_has_what_was_put_in(self):
        files = {"run": (None, 0o755), "usr/bin/taut": (b"program", 0o755), "var/run": ("/run", 0o777)}
        first, second = (images.archive(files, 1_700_000_000) for _ in range(2))
        self.assertEqual(first, second)
        listed = subprocess.run(["tar", "--list", "--verbose", "--file", "-"], input=first, capture_output=True, check=True).stdout.decode()
        self.assertRegex(listed, r"drwxr-xr-x 0/0 .* run/\n-rwxr-xr-x 0/0 .* usr/bin/taut\nlrwxrwxrwx 0/0 .* var/run -> /run\n")

    def test_podman_and_docker_find_the_same_program_of_each_processor_in_an_image(self):
        with tempfile.TemporaryDirectory() as folder:
            binary = Path(folder, "taut")
            binary.write_bytes(b"program")
            both = [(targets.named(name), binary) for name in ("x86-64", "armv7")]
            file = images.make(targets.NODE, both, "0.2.0", 1_700_000_000, Path(folder))
            subprocess.run(["tar", "--extract", "--file", file, "--directory", folder], check=True)

            def read(name):
                return json.loads(Path(folder, name).read_text())

            def described(one):
                return read(f"blobs/{one['digest'].replace(':', '/')}")

            whole = read("index.json")["manifests"][0]
            self.assertEqual(whole["annotations"]["org.opencontainers.image.ref.name"], "taut:0.2.0")
            manifests = [described(one) for one in described(whole)["manifests"]]
            for manifest, listed in zip(manifests, read("manifest.json"), strict=True):
                self.assertEqual(read(listed["Config"]), described(manifest["config"]))
                self.assertEqual([layer.rpartition("/")[2] for layer in listed["Layers"]], [one["digest"].partition(":")[2] for one in manifest["layers"]])
            self.assertEqual([listed["RepoTags"] for listed in read("manifest.json")], [["taut:0.2.0-amd64"], ["taut:0.2.0-armv7"]])


class Flags(unittest.TestCase):
    """Options of compilers."""

    def test_what_is_outlined_is_in_the_programs_and_handles_no_packets(self):
        lock = (root.ROOT / "Cargo.lock").read_text(encoding="utf-8")
        fast = {f"taut-{name}" for name in ("lane", "wire", "tunnel", "noise", "filter", "udp", "tun", "aegis")}
        for name in programs.SELDOM:
            self.assertIn(f'name = "{name}"\n', lock)
            self.assertNotIn(name, fast)
        self.assertTrue(all(f'name = "{name}"\n' in lock for name in fast))


class Sources(unittest.TestCase):
    def test_files_that_stay_the_same_are_not_written_again(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(root.INSIDE, {"/src": Path(folder)}):
            programs.take_source("HEAD")
            kept, changed, added = (Path(folder) / name for name in ("LICENSE", "Cargo.toml", "core/no-such-file"))
            before = kept.stat().st_mtime_ns
            changed.write_text("")
            added.write_text("")
            programs.take_source("HEAD")
            self.assertEqual(kept.stat().st_mtime_ns, before)
            self.assertIn("[workspace]", changed.read_text())
            self.assertFalse(added.exists())

    def test_a_release_without_units_has_the_first_ones_whatever_was_built_before(self):
        commit = releases.listed()["0.1.0"]
        if subprocess.run(["git", "-C", root.ROOT, "cat-file", "-e", commit], capture_output=True, check=False).returncode:
            self.skipTest("the history of this clone does not reach back to release 0.1.0")
        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(root.INSIDE, {"/src": Path(folder)}):
            programs.take_source(commit)
            alone = sorted(path.relative_to(folder) for path in Path(folder).rglob("*"))
            programs.take_source("HEAD")
            programs.take_source(commit)
            self.assertEqual(sorted(path.relative_to(folder) for path in Path(folder).rglob("*")), alone)
            self.assertIn(Path(programs.UNITS) / "taut.service", alone)


class Emulation(unittest.TestCase):
    def test_a_registration_matches_programs_of_its_processor_alone(self):
        def header(order, machine, kind):
            numbers = b"".join(number.to_bytes(2, order) for number in (kind, machine))
            return b"\x7fELF\x01" + (b"\x01" if order == "little" else b"\x02") + b"\x01" + bytes(9) + numbers

        def matches(line, program):
            magic, mask = (bytes(int(byte, 16) for byte in part.split("\\x")[1:]) for part in line.split(":")[4:6])
            return all((program[at] ^ magic[at]) & mask[at] == 0 for at in range(len(magic)))

        with tempfile.TemporaryDirectory() as folder:
            binary = Path(folder) / "taut"
            binary.write_bytes(header("big", 8, 2))
            line = handshake.registration(binary, "/usr/bin/qemu-mips")
        self.assertTrue(line.endswith(":/usr/bin/qemu-mips:FP"))
        self.assertTrue(matches(line, header("big", 8, 2)) and matches(line, header("big", 8, 3)))
        for other in (header("little", 8, 2), header("big", 20, 2), header("big", 8, 1)):
            self.assertFalse(matches(line, other))


if __name__ == "__main__":
    unittest.main()
