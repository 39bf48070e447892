"""Requests generated from the description of the API of the coordinator (docs/spec/openapi.json), sent to the real program (`make api-fuzz`).

    python3 -m lab.runs.api [--examples N] [--rounds N] [--seed N]

schemathesis (tools/schemathesis.txt) makes valid and invalid requests for every operation and checks every answer against the description: no 5xx, only
described statuses, types and fields; invalid requests are refused, valid ones accepted. It runs once as the operator, and once with each kind of invalid
token. Ends with `N passed, N failed`; exit status 1 after a failure.
"""

import argparse
import json
import random
import re
import sys
from pathlib import Path

from ..hosts import needs
from ..hosts.net import Lab
from ..hosts.programs import ROOT, binary
from ..nodes import mesh as meshes

EXAMPLES = 200
ROUNDS = 5
SEED = 1
DOCUMENT = ROOT / "docs" / "spec" / "openapi.json"
PROGRAM = ROOT / "target" / "schemathesis" / "bin" / "st"
LIMIT_S = 3600
# A schema cannot say which prefixes make an overlay, which keys and addresses a relay, which names and addresses nodes answer, which text a policy, which URL a webhook, which link, code or password is right, or that there is an OpenID provider. The API is right to
# refuse such texts. Options for checks on the command line would override this; all checks are on by default.
JUDGED = (
    "createNetwork addRelay applyPolicy changeNode changeNames createKey approveRequest createUser editUser setRole createApiToken createPasswordLink signIn setUp resetPassword"
    " changePassword beginCodes confirmCodes endCodes createWebhook beginTerminalSignIn finishTerminalSignIn"
).split()
OPERATOR = "".join(f'[[operations]]\ninclude-operation-id = "{name}"\nchecks.positive_data_acceptance.enabled = false\n\n' for name in JUDGED)
# Requests that need no token: they are not refused for its lack.
OPEN = ("/healthz", "/readyz", "/api/v1/sign-in", "/api/v1/sign-in/terminal", "/api/v1/sign-in/terminal/finish", "/api/v1/set-up", "/api/v1/password")
# A request without a valid token gets 401, whatever it asks.
NOBODY = """
[checks]
positive_data_acceptance.expected-statuses = ["401"]
negative_data_rejection.expected-statuses = ["401"]
unsupported_method.enabled = false
"""


def lacking():
    """Returns why this cannot run here, or an empty string."""
    if not PROGRAM.is_file():
        return "schemathesis is not installed: run `tools/setup test`, which installs it from PyPI"
    return ""


def fuzz(lab, examples, seed=SEED, rounds=1, invalid=None):
    """Runs it; returns [(name of the caller, whether all checks passed, what was seen)]. With `invalid`, only so many of the invalid tokens are tried, chosen at random."""
    net = meshes.lay_out(lab, nodes=1)
    coordinator = net.coordinator.start()
    net.join(*net.nodes)
    tokens = _tokens(coordinator)
    if invalid is not None:
        left_out = random.sample(sorted(tokens.keys() - {"the operator"}), len(tokens) - 1 - invalid)
        tokens = {who: token for who, token in tokens.items() if who not in left_out}
    seen = []
    for number in range(rounds):
        for who, token in tokens.items():
            seen.append((who, *_run(coordinator, token, who, examples, seed + number)))
    lives = coordinator.process.alive and coordinator.cli("nodes", "list", check=False).returncode == 0
    seen.append(("the coordinator itself", lives, "as alive as before" if lives else coordinator.process.tail()))
    return seen


def _tokens(coordinator):
    """Yields each kind of token, valid or not."""
    host = coordinator.host
    revoked = host.run(binary("taut-coordinator"), "operator-token", "create", "--state", host.state / "coordinator").stdout
    listed = json.loads(coordinator.cli("operator-token", "list", "--json").stdout)["operator_tokens"]
    newest = max(token["id"] for token in listed)
    coordinator.cli("operator-token", "revoke", str(newest))
    good = coordinator.operator_token
    return {
        "the operator": good,
        "nobody": None,
        "another's token": good[:-4] + ("AAAA" if good[-4:] != "AAAA" else "BBBA"),
        "a revoked token": revoked.strip().removeprefix("operator-token: "),
        "a join token": coordinator.join_token,
    }


def _run(coordinator, token, who, examples, seed):
    place = coordinator.host.state / "api"
    place.mkdir(exist_ok=True)
    is_operator = who == "the operator"
    (place / "schemathesis.toml").write_text(OPERATOR if is_operator else NOBODY)
    words = [PROGRAM, "run", DOCUMENT, "--url", coordinator.url, "--seed", seed]
    words += ["--max-examples", examples if is_operator else max(examples // 10, 1)]
    if not is_operator:
        words += [word for path in OPEN for word in ("--exclude-path", path)] + ["--phases", "coverage,fuzzing"]
    if token is not None:
        words += ["--header", f"Authorization: Bearer {token}"]
    words += ["--continue-on-failure", "--no-color", "--suppress-health-check", "all"]
    done = coordinator.host.run("env", "-C", place, *words, check=False, timeout=LIMIT_S)
    text = done.stdout + done.stderr
    cases = re.search(r"\d+ generated.*", text)
    return (done.returncode == 0 and cases is not None, cases[0] if cases and done.returncode == 0 else text)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--examples", type=int, default=EXAMPLES)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seed", type=int, default=SEED)
    args = parser.parse_args()
    if lack := next(iter(needs.missing()), "") or lacking():
        print(f"api: skipped: {lack}", file=sys.stderr)
        return 1
    with Lab(Path(ROOT / "target" / "lab" / "api")) as lab:
        seen = fuzz(lab, args.examples, args.seed, args.rounds)
        lab.failed = not all(held for _, held, _ in seen)
    for who, held, what in seen:
        print(f"{'passed' if held else 'FAILED'}: {who}: {what}")
    passed = sum(held for _, held, _ in seen)
    print(f"api: {passed} passed, {len(seen) - passed} failed")
    return 0 if passed == len(seen) else 1


if __name__ == "__main__":
    sys.exit(main())
