"""People sign in at Keycloak, in a real browser and in a terminal, with the settings of docs/people.md."""

import json
import re
import stat

import pytest

from lab.hosts import needs
from lab.hosts.browser import Browser
from lab.hosts.programs import binary
from lab.hosts.wait import wait_until
from lab.nodes import keycloak

LACKING = keycloak.missing() or needs.missing_reason("chromium")
pytestmark = pytest.mark.skipif(bool(LACKING), reason=LACKING)

PASSWORD = "correct horse battery"


def enter(browser):
    """Signs ann in at the provider's page."""
    browser.until("document.getElementById('kc-login') !== null")
    browser.fill(username="ann", password=PASSWORD)
    browser.press("#kc-login")


def sign_in(net, *words):
    """Runs `sign-in` on the coordinator's host; returns the process once it has printed the provider's page, and what it has printed."""
    api = ("--api", f"http://127.0.0.1:{net.coordinator.port}")
    process = net.coordinator.host.start(binary("taut-coordinator"), "sign-in", *api, *words, name="sign-in")
    wait_until(lambda: "waiting" in process.err.read_text() or not process.alive, "the provider's page", details=process.tail)
    return process, process.err.read_text()


def users(net):
    return json.loads(net.coordinator.cli("users", "list", "--json").stdout)["users"]


def test_people_sign_in_at_keycloak_in_a_browser_and_in_a_terminal(layout):
    net = layout(nodes=1)
    host = net.coordinator.host
    provider = keycloak.Keycloak(host, f"{net.coordinator.url}/oidc/callback", PASSWORD).start()
    net.coordinator.start(*provider.options)
    with Browser(host) as browser:
        browser.open(f"{net.coordinator.url}/oidc/begin")
        enter(browser)
        browser.until("document.body.innerText.includes('You are signed in') || location.pathname === '/'")
        [ann] = users(net)
        assert (ann["issuer"], ann["email"], ann["groups"]) == (provider.issuer, "ann@example.com", ["staff"])
        refused, said = sign_in(net)
        assert refused.wait() == 1 and "API token" in said, said
        provider.allow_terminals(True)
        file = host.state / "token"
        process, said = sign_in(net, "--token-file", file, "--name", "terminal")
        browser.open(re.search(r"or open (\S+)", said)[1])
        enter(browser)
        browser.until("document.querySelector('[name=accept]') !== null")
        browser.press("[name=accept]")
        assert process.wait() == 0, process.tail()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    net.coordinator.cli("users", "role", str(ann["id"]), "auditor")
    whoami = net.coordinator.cli("users", "whoami", "--token", f"file:{file}", "--json")
    user = json.loads(whoami.stdout)["user"]
    assert (user["id"], user["groups"], user["roles"][0]["role"]) == (ann["id"], ["staff"], "auditor")
    assert len(users(net)) == 1, "the same person"
