"use strict";
const of = (id) => document.getElementById(id);
const code = of("code").textContent;
const base = "/api/v1";
let csrf = null;

const say = (text) => {
  of("result").textContent = text;
};

const ask = async (method, path, body) => {
  const headers = { ...(body && { "Content-Type": "application/json" }), ...(csrf && { "X-CSRF-Token": csrf }) };
  const answer = await fetch(base + path, { method, headers, body: body && JSON.stringify(body) });
  const got = await answer.json();
  if (!answer.ok) {
    const failure = new Error(`${got.error.message}; ${got.error.hint}`);
    failure.status = answer.status;
    throw failure;
  }
  return got;
};

const shown = (id) => {
  for (const form of ["sign-in", "approve"]) of(form).hidden = form !== id;
};

// Shows the request to whoever is signed in, or the form to sign in.
const show = async () => {
  let session;
  try {
    session = await ask("GET", "/session");
  } catch (failure) {
    if (failure.status !== 401) throw failure;
    shown("sign-in");
    of("name").focus();
    return;
  }
  csrf = session.csrf_token;
  of("who").textContent = session.user ? session.user.name : session.actor.name;
  const { request, networks } = await ask("GET", `/requests/${code}`);
  of("machine").textContent = request.name;
  of("address").textContent = request.address;
  of("fingerprint").textContent = request.machine;
  of("program").textContent = request.program;
  of("at").textContent = new Date(request.created_at * 1000).toLocaleString();
  of("network").replaceChildren(...networks.map((name) => new Option(name, name)));
  of("network-row").hidden = networks.length < 2;
  shown("approve");
};

const attempt = (work) => async (event) => {
  event?.preventDefault();
  say("");
  try {
    await work();
  } catch (failure) {
    say(failure instanceof TypeError ? "The coordinator does not answer. Try again." : failure.message);
  }
};

of("sign-in").addEventListener("submit", attempt(async () => {
  const body = { name: of("name").value, password: of("password").value };
  if (of("once").value) body.code = of("once").value;
  await ask("POST", "/sign-in", body);
  of("password").value = of("once").value = "";
  await show();
}));
of("approve").addEventListener("submit", attempt(async () => {
  const { node } = await ask("POST", `/requests/${code}/approve`, { network: of("network").value });
  shown(null);
  say(
    node.state === "active"
      ? `${node.name} is in network ${node.network} now, with the address ${node.addresses[0]}. You can close this page.`
      : `${node.name} belongs to you now. It waits until an administrator of network ${node.network} approves it.`,
  );
}));
of("leave").addEventListener("click", attempt(async () => {
  await ask("DELETE", "/session");
  csrf = null;
  await show();
}));
attempt(show)();
