"""Operators: how they get their first token, where it may travel, and several networks."""

import re
import tempfile
from pathlib import Path

import pytest

from lab.hosts import needs
from lab.hosts.programs import binary
from lab.hosts.wait import wait_until

MODULES = Path("/usr/lib/apache2/modules")


def test_fault_e23_a_journal_gets_the_name_of_the_tokens_file_and_a_terminal_the_tokens(layout):
    coordinator = layout(nodes=1).coordinator.start()
    file = coordinator.first_tokens
    answer = coordinator.process.out.read_text() + coordinator.process.err.read_text()
    assert f"first-tokens: {file}\n" in answer and "taut1-" not in answer and "tautop-" not in answer
    assert file.stat().st_mode & 0o777 == 0o600
    lines = file.read_text().splitlines()
    assert lines[:2] == [f"operator-token: {coordinator.operator_token}", f"join-token: {coordinator.join_token}"]
    assert lines[2].startswith("set-up: http") and len(lines) == 3
    assert coordinator.cli("nodes", "list").returncode == 0
    coordinator.stop()
    # The next start reports that the file still exists, and nothing else about it.
    coordinator.start()
    assert "first-tokens-kept" in coordinator.process.err.read_text()
    assert "tautop-" not in coordinator.process.err.read_text()
    coordinator.stop()
    file.unlink()

    # script(1) provides a terminal.
    host = coordinator.host
    state = host.state / "second"
    serve = f"{binary('taut-coordinator')} serve --state {state} --listen 127.0.0.1:8299 --no-relay"
    shown = host.start("script", "--quiet", "--return", "--flush", "--command", serve, "/dev/null", name="terminal")
    shown.wait_for_output("listening on")
    (token,) = re.findall(r"^operator-token: (tautop-\S+)\r?$", shown.output(), re.MULTILINE)
    assert re.search(r"^join-token: taut1-\S+\r?$", shown.output(), re.MULTILINE)
    assert not (state / "first-tokens").exists(), "what was shown is kept nowhere"
    listed = host.run(binary("taut-coordinator"), "networks", "list", "--api", "http://127.0.0.1:8299", "--token", token)
    assert "default" in listed.stdout
    shown.stop()


@pytest.mark.skipif(bool(needs.missing_reason("apache2", "openssl", "ss")), reason=needs.missing_reason("apache2", "openssl", "ss"))
def test_fault_e22_the_operator_token_crosses_the_network_by_tls_or_not_at_all(layout):
    net = layout(nodes=1)
    coordinator, client = net.coordinator.start(), net.nodes[0].host
    options = ("--token", coordinator.operator_token)

    def ask(*words):
        return client.run(binary("taut-coordinator"), "networks", "list", *words, *options, check=False)

    refused = ask("--api", coordinator.url)
    assert refused.returncode == 2 and "--insecure" in refused.stderr
    assert ask("--api", coordinator.url, "--insecure").returncode == 0
    with tempfile.TemporaryDirectory(prefix="front-", dir=client.state.parent) as name:
        directory = Path(name)
        directory.chmod(0o755)
        front = https_front(coordinator.host, directory, coordinator)
        url = f"https://{coordinator.address}:8443"
        assert "default" in ask("--api", url, "--ca", directory / "ca.pem").stdout
        unknown = ask("--api", url)
        assert unknown.returncode == 1
        assert "not trusted" in unknown.stderr or "ca-certificates" in unknown.stderr, unknown.stderr
        elsewhere = ask("--api", "https://localhost:8443", "--ca", directory / "ca.pem")
        assert elsewhere.returncode == 1, "nothing listens on the client itself"
        front.stop()


def https_front(host, directory, coordinator):
    """Starts Apache with TLS in front of the coordinator, with a certificate of the authority in `ca.pem`."""
    certify(host, directory, coordinator.address)
    modules = "\n".join(
        f"LoadModule {name}_module {MODULES}/mod_{name}.so" for name in ("mpm_event", "authz_core", "ssl", "proxy", "proxy_http")
    )
    config = directory / "apache.conf"
    config.write_text(f"""{modules}
ServerName {coordinator.address}
Listen {coordinator.address}:8443
DefaultRuntimeDir {directory}
PidFile {directory}/pid
Mutex file:{directory} default
ErrorLog /dev/stderr
User www-data
Group www-data
SSLEngine on
SSLCertificateFile {directory}/certificate.pem
SSLCertificateKeyFile {directory}/key.pem
ProxyPass / http://127.0.0.1:{coordinator.port}/
""")
    front = host.start("apache2", "-d", directory, "-f", config, "-DFOREGROUND", name="apache2")
    wait_until(lambda: host.run("ss", "-Hltn", "sport = :8443").stdout.strip(), "apache2 to listen", details=front.tail)
    return front


def certify(host, directory, address):
    """Makes an authority and its certificate for the address."""
    kind = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    (directory / "ext").write_text(f"subjectAltName=IP:{address}\nbasicConstraints=critical,CA:FALSE\n")
    authority = ("-keyout", directory / "ca.key", "-out", directory / "ca.pem")
    host.run("openssl", "req", "-x509", *kind, "-subj", "/CN=taut-lab authority", "-days", "2", *authority)
    host.run("openssl", "req", *kind, "-subj", "/CN=taut-lab", "-keyout", directory / "key.pem", "-out", directory / "csr")
    signed = ("-CA", directory / "ca.pem", "-CAkey", directory / "ca.key", "-CAcreateserial", "-days", "2")
    host.run(
        "openssl", "x509", "-req", "-in", directory / "csr", *signed, "-extfile", directory / "ext", "-out", directory / "certificate.pem"
    )


def test_members_of_a_removed_network_are_informed_and_another_network_continues(layout):
    net = layout(nodes=4)
    coordinator, (one, two, three, four) = net.coordinator.start(), net.nodes
    net.join(one, two)
    coordinator.cli("networks", "create", "lab", "--ipv4-prefix", "10.80.0.0/16")
    _, join = coordinator.create_key("--network", "lab")
    for node in (three, four):
        node.start()
        node.up(join)
    # First a name that exists in one network only, then one that exists in two networks.
    coordinator.cli("nodes", "rename", three.name, "attic")
    three.wait_for(lambda status: status["self"]["name"] == "attic", "its new name")
    assert "attic.lab" in four.taut("hosts").stdout
    coordinator.cli("nodes", "rename", one.name, "attic")
    unclear = coordinator.cli("nodes", "remove", "attic", check=False)
    assert unclear.returncode == 1 and "default, lab" in unclear.stderr and "--network" in unclear.stderr

    refused = coordinator.cli("networks", "remove", "lab", check=False)
    assert refused.returncode == 1 and "members" in refused.stderr and "--force" in refused.stderr
    four.kill()
    coordinator.cli("networks", "remove", "lab", "--force")
    for node in (three, four.start()):
        answer = node.wait_for(lambda status: status["problem"], "word that it is no member")
        assert "not a member" in answer["problem"]["message"]
    assert "lab" not in coordinator.cli("networks", "list").stdout
    assert one.ping_until_direct(two.name)
