"""The page that `taut up` names, in a real browser: a person signs in, sees which machine asks, and approves it."""

import json
import re

import pytest

from lab.hosts import needs
from lab.hosts.browser import Browser
from lab.hosts.wait import wait_until
from lab.tests.test_devices import asking, invitation, said

pytestmark = pytest.mark.skipif(bool(needs.missing_reason("chromium")), reason=needs.missing_reason("chromium"))

PASSWORD = "correct horse battery"
LINK = re.compile(r"https?://\S+/link#\S+")


def person(net, browser, name, role):
    """Makes a user with a role in the network, who chooses a password at the page of the link."""
    made = net.coordinator.cli("users", "create", name).stdout
    net.coordinator.cli("users", "role", name, role, "--network", "default")
    browser.open(LINK.search(made)[0])
    browser.fill(password=PASSWORD)
    browser.press("#form button")
    browser.until("document.getElementById('result').textContent.startsWith('Done')")


def test_a_member_signs_in_at_the_page_and_approves_its_own_machine(layout, tmp_path):
    net = layout(nodes=2)
    net.coordinator.start()
    one, two = net.nodes
    net.join(one)
    two.start()
    process, code = asking(two, *invitation(net))
    page = re.search(r"http\S+/approve/\S+", said(process))[0]
    assert page.endswith(code)
    with Browser(one.host) as browser:
        person(net, browser, "ann", "member")
        browser.open(page)
        browser.until("!document.getElementById('sign-in').hidden")
        assert two.name not in browser.text(), "a stranger learns nothing of the machine"
        browser.fill(name="ann", password="wrong horse battery")
        browser.press("#sign-in button")
        browser.until("document.getElementById('result').textContent")
        assert two.name not in browser.text()
        browser.fill(name="ann", password=PASSWORD)
        browser.press("#sign-in button")
        browser.until("!document.getElementById('approve').hidden")
        shown = browser.text()
        assert two.name in shown and str(two.host.addresses[0]) in shown and two.status()["waiting"]["machine"] in shown, shown
        browser.picture(tmp_path / "approve.png")
        browser.press("#approve button:not(.quiet)")
        browser.until("document.getElementById('result').textContent.includes('network default')")
    wait_until(lambda: two.status()["state"] == "running", "the machine to be in", details=process.tail)
    nodes = json.loads(net.coordinator.cli("devices", "list", "--json").stdout)["nodes"]
    assert {node["name"]: node["owner"] for node in nodes}[two.name] == "ann"
