"""The node's service on OpenWrt, with stand-ins for procd and uci on a busybox root (openwrt.py): not run on a real OpenWrt."""

import json

import pytest

from lab.hosts.wait import wait_until
from lab.nodes.taut import Coordinator
from lab.tests.openwrt import BUSYBOX, OpenWrt

pytestmark = pytest.mark.skipif(not BUSYBOX.exists(), reason="the root target/debian13 is missing: tools/units")


def settings(router, *words):
    done = router.run(" ".join(("taut set --json", *words)), check=False)
    return {one["name"]: (one["value"], one["origin"]) for one in json.loads(done.stdout)["settings"]} if done.returncode == 0 else {}


def test_a_router_is_installed_configured_and_left_as_it_was(lab):
    switch = lab.switch("internet")
    router, other = OpenWrt(lab.host("router", switch)), lab.host("coordinator", switch)
    coordinator = Coordinator(other).start()
    said = router.run("taut service install").stdout
    assert "started" in said and "/etc/init.d/taut" in said
    # The firewall has the zone, and nothing is forwarded.
    assert "firewall.taut.forward=REJECT" in router.read("tmp/uci") and "network.taut.device=taut0" in router.read("tmp/uci")
    assert router.read("tmp/firewall") == "reload\n" and not router.read("etc/uci-defaults/70-taut")
    wait_until(lambda: settings(router), "the daemon to answer", details=lambda: router.read("tmp/log"))
    router.run(f"taut up --join {coordinator.join_token}")
    me = json.loads(router.run("taut status --json").stdout)["self"]
    # Keys are where a restart of the router leaves them.
    assert router.read("etc/taut/state/identity.json") and not (router.root / "tmp/lib/taut").exists()
    text = "config taut 'main'\n\toption mut '1400'\n\toption mtu '1300'\n\toption portmap '0'\n\toption accept_routes '1'\n"
    text += "\tlist advertise_routes '192.168.7.0/24'\n\tlist advertise_routes '10.1.0.0/24 as 10.201.0.0/24'\nconfig taut 'work'\nconfig taut 'off'\n\toption enabled '0'\n"
    (router.root / "etc/config/taut").write_text(text)
    assert router.run("/etc/init.d/taut reload").stderr.count("there is no setting") == 1
    wait_until(lambda: settings(router).get("mtu") == ("1300", "environment"), "the settings to be in force", details=lambda: router.read("tmp/log"))
    now = settings(router)
    assert now["portmap"] == ("false", "environment") and now["accept-routes"] == ("true", "environment")
    assert now["advertise-routes"] == ("192.168.7.0/24,10.1.0.0/24 as 10.201.0.0/24", "environment")
    assert json.loads(router.run("taut status --json").stdout)["self"]["id"] == me["id"]
    names = [one["name"] for one in json.loads(router.run("taut networks --json").stdout)["networks"]]
    assert names == [None, "work"]
    assert (router.root / "etc/taut/state-work").exists() and not (router.root / "etc/taut/state-off").exists()
    state = json.loads(router.run("taut service status --json").stdout)
    assert (state["installed_by"], state["enabled"], state["active"]) == ("taut-service", True, True)
    router.run("taut leave; taut service uninstall")
    assert "taut" not in router.read("tmp/uci") and not (router.root / "etc/init.d/taut").exists() and not list((router.root / "etc/rc.d").iterdir())
    assert "taut" not in router.processes()
