"use strict";
const of = (id) => document.getElementById(id);
const [purpose, secret] = location.hash.slice(1).split(".");
// The secret stays neither in the address bar nor in the history.
history.replaceState(null, "", location.pathname);
const isSetUp = purpose === "set-up";
if (secret && (isSetUp || purpose === "password")) {
  of("what").textContent = isSetUp
    ? "You become the first owner of this coordinator."
    : "Choose a new password. All your sessions end.";
  of("name-row").hidden = !isSetUp;
  of("name").required = isSetUp;
  of("form").hidden = false;
} else {
  of("result").textContent = "This link is not complete. Copy all of it.";
}
of("form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const body = { secret, password: of("password").value };
  if (isSetUp) body.name = of("name").value;
  try {
    const answer = await fetch(isSetUp ? "/api/v1/set-up" : "/api/v1/password", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
    });
    const got = await answer.json();
    if (answer.ok) {
      of("form").hidden = true;
      of("result").textContent = "Done. You can sign in with this password.";
    } else {
      of("result").textContent = `${got.error.message}; ${got.error.hint}`;
    }
  } catch {
    of("result").textContent = "The coordinator does not answer. Try again.";
  }
});
