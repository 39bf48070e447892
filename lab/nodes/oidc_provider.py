"""npm's `oidc-provider`, certified by the OpenID Foundation (tools/with_oidc_provider)."""

import os
import sys

from ..hosts.namespace import call
from ..hosts.programs import ROOT

_SIGN_IN = ROOT / "lab" / "traffic" / "oidc_sign_in.py"
_INSTALLER = ROOT / "tools" / "with_oidc_provider"
_PROGRAM = ROOT / "apps" / "coordinator" / "tests" / "oidc" / "provider.mjs"
# Where its packages are, as tools/with_oidc_provider has them.
_PACKAGES = ROOT / "target" / "oidc-provider"
SECRET = "a secret of the client"


def missing():
    """Returns why the provider cannot run, or an empty string."""
    done = call(sys.executable, _INSTALLER, "--check", check=False, env=os.environ)
    return "" if done.returncode == 0 else f"npm's oidc-provider is not installed: {_INSTALLER} --install"


class OidcProvider:
    """A provider at a loopback address of `host`. `redirect` is where a browser returns to."""

    def __init__(self, host, redirect):
        self.host = host
        self.process = host.start("node", _PROGRAM, redirect, SECRET, name="oidc-provider", env={"TAUT_TEST_OIDC": _PACKAGES})
        self.process.wait_for_output("\n")
        self.issuer = self.process.output().strip()

    def sign_in(self, url, name):
        """Opens a page of the provider as `name`, fills every form in and agrees to everything; returns the last page."""
        return self.host.run(sys.executable, "-I", _SIGN_IN, url, name).stdout
