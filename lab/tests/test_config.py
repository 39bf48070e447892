"""`taut config check`: what a daemon would start with, where each value comes from, and what is wrong."""

import json
import os
import subprocess

import pytest

from lab.hosts.programs import binary
from lab.hosts.wait import wait_until
from lab.nodes.taut import answering

pytestmark = pytest.mark.programs


def check(*words, env=None):
    """Runs the command; returns (exit status, object, standard error)."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TAUT_")}
    done = subprocess.run([binary("taut"), "config", "check", "--json", *words], capture_output=True, text=True, check=False, env=clean | (env or {}))
    return done.returncode, json.loads(done.stdout), done.stderr


def of(answer):
    return {one["name"]: (one["value"], one["source"], one["line"]) for one in answer["settings"]}


def test_each_setting_has_its_value_and_its_place(tmp_path):
    file = tmp_path / "taut.toml"
    file.write_text('# a node\nlanes = 3\nmtu = 1300\nlog-level = "warn"\nsnat = false\nstate = "/nonexistent/state"\nadvertise-routes = [\n  "10.0.0.0/8", # one\n  "192.168.0.0/16",\n]\n')
    code, answer, _ = check("--config", file, "--log-level", "debug", env={"TAUT_MTU": "1400", "TAUT_SOCKET": "/nonexistent/socket"})
    found = of(answer)
    assert (code, answer["schema"], answer["ok"], answer["file"]) == (0, 1, True, str(file))
    assert found["lanes"] == ("3", "file", 2) and found["mtu"] == ("1400", "environment", None) and found["log-level"] == ("debug", "flag", None)
    assert found["snat"] == ("off", "file", 5) and found["ecn"] == ("true", "default", None)
    assert found["advertise-routes"] == ("10.0.0.0/8,192.168.0.0/16", "file", 7)
    assert found["state"] == ("/nonexistent/state", "file", 6) and found["socket"] == ("/nonexistent/socket", "environment", None)
    # A flag holds before the file, in either order.
    for words in (["--state", "/s", "--config", file], ["--config", file, "--state", "/s"]):
        assert of(check(*words)[1])["state"] == ("/s", "flag", None)
    # Another file, and the places of the first one do not hold any more.
    other = tmp_path / "other.toml"
    other.write_text("")
    code, answer, _ = check("--config", other, env={"TAUT_CONFIG": str(file)})
    assert of(answer)["state"] == ("/var/lib/taut", "default", None) and answer["file"] == str(other)
    assert of(check(env={"TAUT_CONFIG": str(file)})[1])["lanes"] == ("3", "file", 2)
    assert check("--config", "/dev/null", env={"TAUT_CONFIG": str(file)})[1]["file"] is None


def test_everything_that_is_wrong_is_named_with_its_place(tmp_path):
    file = tmp_path / "taut.toml"
    file.write_text("lane = 4\nmtu = '1300'\nlog-level = loud\n")
    code, answer, error = check("--config", file)
    lines = answer["error"]["message"].splitlines()
    assert code == 1 and [line.removeprefix(f"{file}, ").split(": ")[0] for line in lines] == ["line 1, column 1", "line 2, column 7", "line 3, column 13"], lines
    assert "did you mean `lanes`?" in error and answer["ok"] is False
    file.write_text("lanes = 99\n")
    assert "line 1, column 9: lanes = 99: write `auto`, or a number from 1 to 16" in check("--config", file)[2]
    assert "TAUT_LANES=x in the environment" in check("--config", "/dev/null", env={"TAUT_LANES": "x"})[2]
    assert check("--config", tmp_path / "missing.toml")[0] == 1
    os.mkfifo(tmp_path / "pipe")
    assert "not a regular file" in check("--config", tmp_path / "pipe")[2]
    file.write_text("# " + "x" * (256 << 10))
    assert "larger than 256 KiB" in check("--config", file)[2]


def test_settings_that_cannot_be_together_are_refused_as_a_daemon_refuses_them(tmp_path):
    file = tmp_path / "taut.toml"
    for text, name in (('tun = "userspace"\nkill-switch = true\n', "kill-switch"), ("socks5 = 1080\n", "socks5")):
        file.write_text(text)
        code, _, _ = check("--config", file)
        done = subprocess.run([binary("taut"), "config", "check", "--config", file], capture_output=True, text=True, check=False)
        assert code == done.returncode == 1 and f"`{name}`" in done.stderr


def test_a_mistyped_variable_and_a_file_that_others_may_change_are_warned_of(tmp_path):
    file = tmp_path / "taut.toml"
    file.write_text("lanes = 2\n")
    file.chmod(0o666)
    warnings = check("--config", file, env={"TAUT_LANE": "4"})[1]["warnings"]
    assert any("did you mean TAUT_LANES?" in warning for warning in warnings) and any(f"chmod go-w {file}" in warning for warning in warnings)
    file.chmod(0o644)
    assert check("--config", file)[1]["warnings"] == []


def test_commands_find_the_daemon_by_the_file(layout, tmp_path):
    [node] = layout(nodes=1).nodes
    file = tmp_path / "taut.toml"
    file.write_text(f'socket = "{node.socket}"\nstate = "{node.state}"\n')
    env = {"TAUT_CONFIG": str(file)}
    node.process = node.host.start(binary("taut"), "daemon", name="daemon", env=env)
    wait_until(lambda: answering(node.socket), "the daemon to answer on the socket of the file", details=node.process.tail)
    done = node.host.run(binary("taut"), "status", "--json", env=env, check=False)
    assert json.loads(done.stdout)["state"] == "needs-join" and list(node.state.iterdir())
