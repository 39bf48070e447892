"""Keycloak, an OpenID provider, set up as docs/people.md says ("Keycloak, step by step")."""

import json

from ..hosts.needs import missing_reason
from ..hosts.wait import LabError
from . import versions

PORT, MANAGEMENT_PORT = 8180, 9000
REALM, CLIENT = "example", "taut"
# Name and password of the administrator of this one start.
ADMIN = "admin"
# Time to start, 5 min: it first compiles its settings, which takes half a minute of a core, and two on a busy machine.
START_S = 300.0
GROUPS = {"full.path": "false", "id.token.claim": "true", "userinfo.token.claim": "true", "claim.name": "groups"}


def missing():
    """Returns why Keycloak cannot be run, or an empty string."""
    lacking = versions.lacking("keycloak", "bin/kc.sh")
    return f"{lacking} PEER=keycloak" if lacking else missing_reason("java", "curl")


class Keycloak:
    """A provider on the loopback address of `host`. `callback` is the redirect URI of the client, and `password` that of its person, `ann` of the group `staff`."""

    def __init__(self, host, callback, password):
        self.host, self.callback, self.password = host, callback, password
        self.issuer = f"http://127.0.0.1:{PORT}/realms/{REALM}"
        self.secret = host.state / "oidc-secret"
        self.process = None
        self._client = None

    @property
    def options(self):
        """The options of `serve` that docs/people.md names."""
        names = ("--oidc-issuer", self.issuer, "--oidc-client-id", CLIENT, "--oidc-client-secret-file", self.secret)
        return (*names, "--oidc-allow-group", "staff", "--oidc-allow-private")

    def start(self):
        """Starts it and sets the realm, the client and the person up."""
        program = versions.peer("keycloak", "bin/kc.sh")
        where = ("--http-host=127.0.0.1", f"--http-port={PORT}", f"--http-management-port={MANAGEMENT_PORT}", "--db=dev-mem")
        env = {"KC_BOOTSTRAP_ADMIN_USERNAME": ADMIN, "KC_BOOTSTRAP_ADMIN_PASSWORD": ADMIN}
        self.process = self.host.start(program, "start-dev", *where, name="keycloak", env=env)
        self.process.wait_for_output("Listening on", timeout=START_S)
        self._ask("POST", "", {"realm": REALM, "enabled": True})
        self._ask("POST", f"/{REALM}/clients", self._description())
        self._client = self._ask("GET", f"/{REALM}/clients?clientId={CLIENT}")[0]["id"]
        self.secret.write_text(self._ask("GET", f"/{REALM}/clients/{self._client}/client-secret")["value"] + "\n")
        self._ask("POST", f"/{REALM}/groups", {"name": "staff"})
        password = {"type": "password", "value": self.password, "temporary": False}
        names = {"username": "ann", "email": "ann@example.com", "firstName": "Ann", "lastName": "Example"}
        self._ask("POST", f"/{REALM}/users", {**names, "emailVerified": True, "enabled": True, "groups": ["staff"], "credentials": [password]})
        return self

    def allow_terminals(self, allowed):
        """Turns the switch *OAuth 2.0 Device Authorization Grant* of the client."""
        self._ask("PUT", f"/{REALM}/clients/{self._client}", self._description(allowed))

    def _description(self, terminals=False):
        flows = {"standardFlowEnabled": True, "implicitFlowEnabled": False, "directAccessGrantsEnabled": False, "serviceAccountsEnabled": False}
        mapper = {"name": "groups", "protocol": "openid-connect", "protocolMapper": "oidc-group-membership-mapper", "config": GROUPS}
        return {
            "clientId": CLIENT,
            "protocol": "openid-connect",
            "publicClient": False,
            **flows,
            "redirectUris": [self.callback],
            "attributes": {"oauth2.device.authorization.grant.enabled": str(terminals).lower()},
            "protocolMappers": [mapper],
        }

    def _ask(self, method, path, body=None):
        """Sends a request to the administration's API; returns the answer, None without one."""
        words = ("-X", method, "-H", f"Authorization: Bearer {self._token()}")
        more = ("-H", "Content-Type: application/json", "-d", json.dumps(body)) if body is not None else ()
        text = self._curl(f"/admin/realms{path}", *words, *more)
        return json.loads(text) if text.strip() else None

    def _token(self):
        form = f"grant_type=password&client_id=admin-cli&username={ADMIN}&password={ADMIN}"
        return json.loads(self._curl("/realms/master/protocol/openid-connect/token", "-d", form))["access_token"]

    def _curl(self, path, *words):
        done = self.host.run("curl", "-sS", "--fail-with-body", *words, f"http://127.0.0.1:{PORT}{path}", check=False)
        if done.returncode != 0:
            raise LabError(f"keycloak refuses {path}: {done.stdout} {done.stderr}")
        return done.stdout
