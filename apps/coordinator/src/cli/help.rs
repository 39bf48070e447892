//! The help texts.

/// Returns the help of a command, or of the program.
pub(super) fn text(command: Option<&str>) -> &'static str {
    match command {
        Some("serve") => SERVE,
        Some("config") => CONFIG,
        Some("devices") => DEVICES,
        Some("routes") => ROUTES,
        Some("nodes") => NODES,
        Some("keys") => KEYS,
        Some("names") => NAMES,
        Some("networks") => NETWORKS,
        Some("policy") => POLICY,
        Some("relays" | "relay-token" | "ticket-key") => RELAYS,
        Some("operator-token") => OPERATOR_TOKEN,
        Some("users") => USERS,
        Some("tokens") => TOKENS,
        Some("sign-in") => SIGN_IN,
        Some("audit") => AUDIT,
        Some("webhooks") => WEBHOOKS,
        Some("backup" | "restore" | "check") => BACKUP,
        Some("migrate") => MIGRATE,
        Some("simulate") => SIMULATE,
        _ => PROGRAM,
    }
}

/// Returns the usage lines of a command, or of the program, and where its help is.
pub(super) fn usage(command: Option<&str>) -> String {
    let start = command.map(|name| format!("taut-coordinator {name}"));
    let lines: Vec<&str> = match &start {
        Some(start) => text(command).lines().filter(|line| line.starts_with(start)).collect(),
        None => Vec::new(),
    };
    let lines = if lines.is_empty() { vec!["taut-coordinator COMMAND [OPTIONS]"] } else { lines };
    let help = start.unwrap_or_else(|| String::from("taut-coordinator"));
    format!("usage: {}\n  see `{help} --help`", lines.join("\n       "))
}

/// The options of all commands that talk to a coordinator's HTTP API.
macro_rules! remote_options {
    () => {
        "  --json               print the API's answer as JSON
  --api URL            the coordinator's URL (default $TAUT_API or http://127.0.0.1:8288). Plain http:// is for loopback
                       addresses and `localhost` alone: the operator token would cross a network in clear text
  --ca FILE            with https://: trust the certificate authorities in this PEM file (default $TAUT_CA), instead
                       of those in the system's store
  --insecure           send the operator token over http:// to another host all the same
  --token TOKEN        the operator token or API token, or file:PATH (default $TAUT_OPERATOR_TOKEN)
"
    };
}

const SIMULATE: &str = "\
taut-coordinator simulate [--nodes N] [--visible N] [--changes N] [--seconds N] [--replicas N] [--database URL] [--relays N] [--relay-places N] [--json]

Measures a coordinator with many simulated nodes on this host. It starts a coordinator on a temporary database and
port, and as many nodes as wanted, each with a real control channel. Nodes report new endpoints; each change must reach
all other nodes of its network. Then the coordinator is killed and started again, and at the end each node's map is
compared with the database. With replicas, several coordinators serve one empty PostgreSQL database, which keeps what
was simulated; nodes are spread over them, and those of the one that is killed connect to the others. Exit status 1 if
a change was lost or a map differs. Coordinators and nodes share the processor. Each node needs an open file in both
(`ulimit -n`).

With relays, nodes are simulated in places all over a world, most of them near the first relay. Each chooses two relays
as real nodes do, by distance, and not the busy ones; relays have real channels and report how many nodes chose them. The
result shows how nodes spread. Nothing is forwarded.

  --nodes N            nodes in all (default 1000)
  --visible N          nodes of one network, which see each other (default 101: each sees 100 others)
  --changes N          changes per second (default 1)
  --seconds N          for this time (default 30)
  --replicas N         coordinators, up to 16 (default 1)
  --database URL       the empty PostgreSQL database (or $TAUT_DATABASE); by default SQLite in a temporary directory
  --relays N           relays, 2 to 31, which all networks list (default none)
  --relay-places N     nodes that one relay can take (default: all relays together have room for one and
                       a half times what all nodes take, which is two places each)
  --json               print the result as JSON
";

const MIGRATE: &str = "\
taut-coordinator migrate --from DATABASE --to DATABASE [--config FILE] [--json]

Copies a coordinator with all its networks into an empty database, in one transaction, and compares every row. The
coordinator must be stopped. Nodes notice nothing: keys, addresses, numbers and versions stay, and so do tokens. The
first database gets a mark, with which no coordinator starts on it again. DATABASE is

  sqlite:DIRECTORY     the state directory of a coordinator with SQLite (`serve --state DIRECTORY`)
  postgres://…         the URL of a PostgreSQL database (`serve --database`)
  postgres             the same, from $TAUT_DATABASE or the configuration file, which hides the password from the list of
                       processes

  --from DATABASE      the coordinator's database
  --to DATABASE        the empty one
  --config FILE        with `postgres`: the configuration file (default $TAUT_CONFIG or /etc/taut/coordinator.toml)
  --json               print the numbers of rows as JSON
";

const PROGRAM: &str = "\
taut-coordinator: enrols nodes, hands out addresses, streams the network map

  taut-coordinator serve            run the coordinator
  taut-coordinator config …         check the configuration and print the settings in force
  taut-coordinator devices …        approve, disable, tag, rename, remove devices
  taut-coordinator nodes …          list, rename, remove nodes
  taut-coordinator routes …         list, approve, revoke networks behind nodes
  taut-coordinator keys …           list, create, revoke enrolment keys (join tokens)
  taut-coordinator names …          list, set, remove records and split domains; set the base domain
  taut-coordinator networks …       list, create, show, remove networks
  taut-coordinator policy …         check, compare, explain, apply policies
  taut-coordinator relays …         list, add, remove relays
  taut-coordinator relay-token      print the line that a relay needs for `--coordinator`
  taut-coordinator ticket-key       print the key that a relay needs for `--trust`
  taut-coordinator operator-token … create, list, revoke operator tokens
  taut-coordinator users …          list, create, edit, remove users and their roles
  taut-coordinator tokens …         create, list, revoke API tokens
  taut-coordinator sign-in          sign in at the OpenID provider, for this terminal
  taut-coordinator audit …          list or export the record of changes
  taut-coordinator webhooks …       list, create, remove, test webhooks
  taut-coordinator openapi          print the description of the HTTP API (OpenAPI 3.1)
  taut-coordinator backup FILE      write the database to a file while the coordinator runs
  taut-coordinator restore FILE     restore such a file
  taut-coordinator check            check the database for damage
  taut-coordinator migrate          move to PostgreSQL, or back
  taut-coordinator simulate         measure a coordinator with many simulated nodes
  taut-coordinator version          print the version (--json)

`taut-coordinator COMMAND --help` tells more.
Exit status: 0 success, 1 failure, 2 usage error. With --json a failure is also printed as an object:
{\"schema\":1,\"error\":{\"message\",\"hint\"}}.
";

const SERVE: &str = "\
taut-coordinator serve [OPTIONS]

The first start creates the coordinator's key, a network, a reusable join token (valid for 90 days), an operator token
and a set-up link. If standard output is a terminal, it prints all three once. Otherwise it prints the name of a file in
the state directory that contains them (`first-tokens`, mode 0600): read it, and delete it.
  operator-token: tautop-…          for `nodes`, `keys`, `networks` and the HTTP API
  join-token: taut1-…               for `taut up --join` on each host
  set-up: http://…/link#…           in a browser, within three days: makes the first owner, with a password
Every start prints `listening on ADDRESS:PORT` when the coordinator answers. SIGTERM and SIGINT end it.
It is also a relay for its networks, for nodes without a direct path: open UDP 3478 and 3479 beside TCP 8288. Relayed
packets are encrypted from node to node. If the ports are in use, the coordinator runs without a relay. Nodes whose UDP
is blocked reach the relay by WebSocket, at the URL at which they reach the coordinator.
Each option can also be an environment variable (TAUT_RELAY_PORT for --relay-port; lists with commas) or a key of the
configuration file (relay-port = 3478). An option comes before a variable, and a variable before the file.

  --config FILE        the configuration file, TOML (default $TAUT_CONFIG or /etc/taut/coordinator.toml if that exists;
                       /dev/null for none); `taut-coordinator config check` shows what is in force
  --state DIR          directory of the database (default /var/lib/taut-coordinator). Contains the coordinator's
                       private key: back it up, keep it private
  --database URL       postgres://USER:PASSWORD@HOST/DATABASE: keep everything but the tokens of the first start in this
                       PostgreSQL database instead (default $TAUT_DATABASE, which hides the password from the list of
                       processes). Several coordinators may serve it. None is a relay itself: see `taut-relay`
  --listen ADDR:PORT   address of the HTTP server (default [::]:8288, which includes IPv4; 0.0.0.0:8288 without IPv6)
  --url URL            URL of the coordinator for nodes, such as http://203.0.113.7:8288 or https://taut.example; part of
                       every join token; repeat for several (default: this host's address and the port)
  --tls-cert FILE      speak https at the listening address, with the certificate chain in this PEM file (the server's own
                       certificate first) and
  --tls-key FILE       its key, PEM without a passphrase. Both are read again on SIGHUP, and within a minute after a change; if
                       the new pair is not good, the old one stays. Without https and --trusted-proxy, keep --listen on loopback
  --acme DOMAIN        speak https with a certificate for this domain that an ACME server such as Let's Encrypt issues and
                       renews, instead of files; repeat for several. With it you agree to the server's terms. Its check comes
                       to port 443 of the domain, and must reach --listen. SQLite only
  --acme-directory URL the ACME server (default https://acme-v02.api.letsencrypt.org/directory)
  --acme-contact MAIL  mail address for the ACME server's account
  --acme-http ADDR:PORT
                       answer checks at this address, by HTTP, instead of at --listen; they come to port 80 of the domain
  --metrics ADDR:PORT  serve the coordinator's counters at this address, as /metrics for Prometheus; anyone who can connect can
                       read them, so use a loopback address
  --drain SECONDS      after SIGTERM, go on serving for this time while /readyz says that the coordinator is not ready, so that
                       a load balancer sends new connections elsewhere (default 0); a second signal ends the wait
  --audit-days DAYS    keep entries of the audit log for this time (default 365)
  --oidc-issuer URL    OpenID provider at which people can sign in, at URL/oidc/begin of this coordinator; register
                       URL/oidc/callback there (docs/people.md)
  --oidc-client-id ID  the coordinator's name at the provider
  --oidc-client-secret-file FILE
                       file with the coordinator's secret at the provider
  --oidc-allow-domain DOMAIN
                       people with a confirmed email address of this domain may sign in; repeat for several; `*` for
                       everyone at the provider
  --oidc-allow-group GROUP
                       people in this group may sign in; repeat for several; with domains, both are needed
  --oidc-groups-claim NAME
                       claim with the groups of a person (default groups)
  --oidc-scope SCOPE   scope to ask for beside openid; repeat for several (default profile, email, offline_access)
  --oidc-parameter NAME=VALUE
                       further parameter of the request to the provider, such as prompt=consent; repeat for several
  --oidc-refresh-minutes N
                       ask the provider after this time whether it still confirms a person (default 60)
  --oidc-allow-private allow a provider at a private or loopback address
  --webhooks-allow-private
                       allow webhooks with http URLs and at private or loopback addresses
  --relay-port PORT    UDP port of the relay (default 3478); the next port answers STUN
  --relay-address IP[:PORT]
                       address of the relay for nodes, if it differs from that of the coordinator; repeat for several
  --relay-rate BITS    limit on the traffic that the relay forwards for one node, in bits per second; K, M or G after the
                       number (default 1G)
  --relay-metrics ADDR:PORT
                       serve the relay's counters at this address, as /metrics for Prometheus and /status as JSON; anyone who can
                       connect can read them, so use a loopback address
  --no-relay           run without a relay
  --trusted-proxy P    prefix of reverse proxies in front, such as 10.0.0.0/8; limits and the log use the client address from
                       Forwarded, X-Forwarded-For or the PROXY protocol; repeat for several
  --log-format FORMAT  text (default) or json: the form of the log on standard error
  --log-level LEVELS   error, warn, info (default), debug or trace; others for some areas as in info,api=debug. Areas:
                       daemon, api, control, members, database, relay. SIGUSR1 records one level more, and after
                       trace those of the command line again
  --network NAME       the first network's name (default `default`); first start only
  --ipv4-prefix P      the first network's IPv4 prefix (default 100.64.0.0/10); first start only
";

const CONFIG: &str = "\
taut-coordinator config check [--config FILE] [--json]

Reads the options of `serve`, environment variables and the configuration file as `serve` would, and prints each
setting with its value and where it comes from, without passwords. Exit status 1, with the file, the line and the key,
if something is wrong; certificate and key of https are read, too. The options of `serve` may be added, to see what
they change (`taut-coordinator serve --help`).

  --state DIR
  --database URL
  --listen ADDR:PORT
  --url URL
  --tls-cert FILE
  --tls-key FILE
  --acme DOMAIN
  --acme-directory URL
  --acme-contact MAIL
  --acme-http ADDR:PORT
  --metrics ADDR:PORT
  --drain SECONDS
  --audit-days DAYS
  --oidc-issuer URL
  --oidc-client-id ID
  --oidc-client-secret-file FILE
  --oidc-allow-domain DOMAIN
  --oidc-allow-group GROUP
  --oidc-groups-claim NAME
  --oidc-scope SCOPE
  --oidc-parameter NAME=VALUE
  --oidc-refresh-minutes N
  --oidc-allow-private
  --webhooks-allow-private
  --relay-port PORT
  --relay-address IP[:PORT]
  --relay-rate BITS
  --relay-metrics ADDR:PORT
  --no-relay
  --trusted-proxy P
  --log-format FORMAT
  --log-level LEVELS
  --network NAME
  --ipv4-prefix P
  --config FILE        the configuration file, TOML (default $TAUT_CONFIG or /etc/taut/coordinator.toml if that exists)
  --json               print the settings as JSON
";

const DEVICES: &str = concat!(
    "\
taut-coordinator devices list [--network NAME]
taut-coordinator devices invite
taut-coordinator devices requests
taut-coordinator devices approve CODE [--network NAME] [--name NAME] [--tags TAGS] [--owner OWNER]
taut-coordinator devices deny CODE
taut-coordinator devices disable DEVICE [--network NAME]
taut-coordinator devices enable DEVICE [--network NAME]
taut-coordinator devices expire DEVICE [--network NAME]
taut-coordinator devices key-expiry DEVICE TIME [--network NAME]
taut-coordinator devices tag DEVICE TAGS [--network NAME]
taut-coordinator devices owner DEVICE OWNER [--network NAME]
taut-coordinator devices rename DEVICE NEW-NAME [--network NAME]
taut-coordinator devices remove DEVICE [--network NAME]

`invite` prints the command with which a host asks to join; nothing in it is secret. The host prints a CODE and
waits. `requests` shows who asks and from where; compare
the machine's fingerprint with what the host prints. `approve` with a DEVICE instead of a CODE is for nodes that wait because the network
has approval on, and for those whose membership has expired. A device that is disabled, expired or not approved is in
nobody's map, and its channel stays open, so that it is back as soon as that ends. DEVICE is a name or a number. TIME is such as
90d, or `never`, or `default` for that of the network; TAGS are such as tag:web,tag:db, or `none`; OWNER may be `none`.

  --name NAME          name of the device, instead of the one that the host asks for
  --tags TAGS          tags, with commas between them
  --owner OWNER        the person that it belongs to
  --network NAME       required if several networks have a device of that name, or could take a new one
",
    remote_options!()
);

const NODES: &str = concat!(
    "\
taut-coordinator nodes list [--network NAME]
taut-coordinator nodes rename NODE NEW-NAME [--network NAME]
taut-coordinator nodes remove NODE [--network NAME]

NODE is a name or a number. A removed node may join again with a join token, as a new node; within three days it
gets its addresses again if nobody else has them.

  --network NAME       required if several networks have a node of that name; without it `list` shows all networks
",
    remote_options!()
);

const ROUTES: &str = concat!(
    "\
taut-coordinator routes list [--network NAME]
taut-coordinator routes approve NODE ROUTES [--network NAME]
taut-coordinator routes revoke NODE ROUTES [--network NAME]

Subnet routes are prefixes behind a node. `taut set --advertise-routes` on the node proposes them; other nodes use them after `approve`, or at once
where `autoApprovers` of the policy names the node's owner or tag. An approval remains until `revoke`, also while the node does not
advertise the route. NODE is a name or a number; ROUTES are such as 192.168.10.0/24,fd12:3456::/48; `exit-node`
is the way to the internet, which `taut set --advertise-exit-node` proposes.

  --network NAME       required if several networks have a node of that name; without it `list` shows all networks
",
    remote_options!()
);

const NAMES: &str = concat!(
    "\
taut-coordinator names list [--network NAME]
taut-coordinator names set-record NAME ADDRESSES [--network NAME]
taut-coordinator names remove-record NAME [--network NAME]
taut-coordinator names set-domain DOMAIN SERVERS [--network NAME]
taut-coordinator names remove-domain DOMAIN [--network NAME]
taut-coordinator names set-base DOMAIN|default [--network NAME]

Names that nodes answer for their hosts, besides those of nodes. A record is one label of the network's domain (`printer`), or a whole name
(`git.corp.example`); `*` as its first label stands for all names below. Questions for a domain go to its servers, through the overlay: addresses of
nodes, or behind subnet routers. With `set-base corp.example` nodes are called NODE.NETWORK.corp.example.

Single labels, public suffixes (`co.uk`) and special names (`local`) need the consent of each node's user (`taut set --accept-domains`).

  --network NAME       required if there are several networks
",
    remote_options!()
);

const KEYS: &str = concat!(
    "\
taut-coordinator keys list [--network NAME]
taut-coordinator keys create [--one-off] [--uses N] [--expires 90d] [--ephemeral 1h] [--pre-approved] [--tags TAGS] [--owner OWNER] [--network NAME]
taut-coordinator keys revoke ID

`create` prints a join token once; only its hash is stored. `revoke` ends a key; nodes that joined with it remain
members.

  --one-off            for one node only
  --uses N             for N nodes
  --ephemeral TIME     nodes that join with it are removed after this time of absence, 5m to 30d, which counts only
                       while the coordinator runs
  --pre-approved       nodes that join with it need no further approval where a network has approval on
  --tags TAGS          tags of nodes that join with it, such as tag:web,tag:db
  --owner OWNER        the person that nodes that join with it belong to
  --expires WHEN       30m, 24h, 90d (the default) or never
  --network NAME       required by `create` if there are several networks; without it `list` shows all networks
",
    remote_options!()
);

const NETWORKS: &str = concat!(
    "\
taut-coordinator networks list
taut-coordinator networks show NAME
taut-coordinator networks create NAME [--ipv4-prefix 100.64.0.0/10]
taut-coordinator networks set NAME [--approval on|off] [--key-expiry 90d|never]
taut-coordinator networks remove NAME [--force]

Each network has the IPv4 prefix that you choose and a random IPv6 prefix (RFC 4193). `remove` removes a network with
its enrolment keys and relays; it fails if the network has members.

  --approval on|off    new nodes wait until `devices approve` (default off); keys with --pre-approved approve in advance
  --key-expiry TIME    time after which a membership must be renewed (default never). It applies to nodes that join or
                       are approved from then on; `devices key-expiry` changes one device
  --force              remove the network's members as well; each of them is told
",
    remote_options!()
);

const POLICY: &str = concat!(
    "\
taut-coordinator policy check FILE [--nodes FILE] [--json]
taut-coordinator policy compile FILE [--nodes FILE] [--json]
taut-coordinator policy explain [FILE] SRC DST:PORT [--proto PROTO] [--nodes FILE] [--network NAME] [--json]
taut-coordinator policy diff [OLD] NEW [--nodes FILE] [--network NAME] [--json]
taut-coordinator policy show [VERSION] [--network NAME] [--json]
taut-coordinator policy history [--network NAME] [--json]
taut-coordinator policy apply FILE [--comment TEXT] [--based-on VERSION] [--force] [--network NAME] [--json]
taut-coordinator policy rollback VERSION [--comment TEXT] [--force] [--network NAME] [--json]

A policy says who may reach what; docs/policy.md describes the language. `apply` refuses a policy whose tests fail; it is
then in force within moments, and connections that it forbids are cut. `rollback` applies an earlier version again, as the
next one. `check` parses a policy and runs its tests. `compile` prints what each node of `--nodes` enforces, with the lines
of the rules. `explain` says whether a connection is allowed, and by which rule; SRC and DST are names of nodes or
addresses, such as web1:443 or [fd00::1]:22. `diff` prints which pairs of nodes gain and lose what. `explain` and `diff`
are about the policy in force if no other is named, and about the network's nodes without `--nodes`.

  --nodes FILE         the nodes that the policy is applied to, as JSON: {\"nodes\":[{\"name\":\"web1\",
                       \"addresses\":[\"100.64.0.1\"],\"user\":\"ann@example.com\",\"tags\":[],\"routes\":[]}]}. Without it `check` runs
                       the tests on nodes that it makes up
  --proto PROTO        the protocol, by name or number (default tcp); a protocol without ports needs no :PORT
  --comment TEXT       why, for `history`
  --based-on VERSION   refuse if another version is in force, because somebody else was quicker
  --force              apply it although some nodes are too old to enforce it
  --network NAME       required if there are several networks
  --json               print JSON, with a schema version

The coordinator that `explain`, `diff`, `show`, `history`, `apply` and `rollback` ask:

",
    remote_options!()
);

const RELAYS: &str = concat!(
    "\
taut-coordinator relays list [--network NAME]
taut-coordinator relays add NAME KEY ENDPOINT… [--stun-port PORT] [--web URL] [--network NAME]
taut-coordinator relays remove RELAY [--network NAME]
taut-coordinator relay-token
taut-coordinator ticket-key

A relay forwards encrypted packets between nodes without a direct path. Start one with
`taut-relay serve --coordinator TOKEN`, where TOKEN is the output of `relay-token`, and add it with the key that it prints
and its address. It then has a channel to the coordinator: removed nodes are cut off there at once, and `list` shows its
load. `ticket-key` prints the key for a relay without a channel (`--trust`). The relay named `coordinator` is the
coordinator's own (see `serve`).

  --stun-port PORT     second UDP port that answers STUN, so that nodes can detect their type of NAT
  --web URL            its wss:// or ws:// URL, for nodes whose UDP is blocked
  --network NAME       required by `add` if there are several networks, and by `remove` if several have a relay of that
                       name; without it `list` shows all networks
",
    remote_options!()
);

const OPERATOR_TOKEN: &str = concat!(
    "\
taut-coordinator operator-token create [--state DIR | --database URL] [--config FILE]
taut-coordinator operator-token list
taut-coordinator operator-token revoke ID

`create` creates another operator token in the database (of the state directory, by default
/var/lib/taut-coordinator, or of --database URL, by default $TAUT_DATABASE, or as in the configuration file of `serve`,
which --config FILE names) and prints it once: for an operator who lost the first one, or for one token per person. The
coordinator may be running. `revoke` ends a token at once; the last valid token cannot be revoked. `list` and `revoke`
take these options:

",
    remote_options!()
);

const USERS: &str = concat!(
    "\
taut-coordinator users list
taut-coordinator users show USER
taut-coordinator users create NAME [--role ROLE] [--display-name TEXT] [--email ADDRESS]
taut-coordinator users edit USER [--display-name TEXT] [--email ADDRESS]
taut-coordinator users role USER ROLE [--network NAME]
taut-coordinator users reset USER
taut-coordinator users disable USER
taut-coordinator users enable USER
taut-coordinator users end-sessions USER
taut-coordinator users remove-codes USER
taut-coordinator users remove USER
taut-coordinator users export USER
taut-coordinator users whoami
taut-coordinator users set-up LINK [--name NAME] [--display-name TEXT]
taut-coordinator users set-up-link [--url URL] [--state DIR | --database URL] [--config FILE]

USER is the name with which a user signs in, or its number. ROLE is owner (changes everything), admin (changes nodes,
keys, relays, policies), auditor (reads everything), member (own account and devices) or none. `create` and `reset` print a link
with which the user sets its password, once, within three days. The last owner can neither be removed nor disabled nor
lose the role. `set-up` uses such a link in a terminal, and reads the password from standard input. `set-up-link` makes
another link for a first owner in the database; the coordinator may be running. `remove` erases the user's data;
`export` prints all of it.

  --role ROLE          the role in all networks
  --network NAME       the role is for this network only; by default for all networks and the coordinator itself
  --display-name TEXT  the name for people
  --email ADDRESS      shown only; empty deletes it
  --name NAME          of `set-up`: the name with which the first owner signs in
  --url URL            of `set-up-link`: the coordinator's URL (default http://127.0.0.1:8288)

The coordinator that `list`, `show`, `create`, `edit`, `disable`, `enable`,
`role`, `reset`, `end-sessions`, `remove-codes`, `remove`, `export`, `whoami` and `set-up` ask:

",
    remote_options!()
);

const TOKENS: &str = concat!(
    "\
taut-coordinator tokens create NAME [--scopes SCOPES] [--expires 90d] [--state DIR | --database URL] [--config FILE]
taut-coordinator tokens list
taut-coordinator tokens revoke ID

API tokens are for programs: each has a name, scopes and an expiry. `create` creates a token of the operator in the
database, as `operator-token create` does, and prints it once. Users create their own by the API. `list` and `revoke`
also concern tokens of users.

  --scopes SCOPES      required: all, read, or AREA:read and AREA:write, separated by spaces; areas are networks, nodes,
                       keys, relays, policy, users, tokens and audit
  --expires WHEN       30m, 24h, 90d (the default), up to ten years

The coordinator that `list` and `revoke` ask:

",
    remote_options!()
);

const SIGN_IN: &str = "\
taut-coordinator sign-in [--token-file FILE] [--scopes SCOPES] [--expires 12h] [--name NAME]

Signs a user of the OpenID provider in, for this terminal. Prints a link and a code of the provider, waits until the user
has opened the link in a browser, on this host or another one, and entered the code, and prints an API token of the user
on standard output. The token can do no more than the user. `taut-coordinator tokens revoke ID` ends it. The coordinator
needs an OpenID provider (`serve --oidc-issuer`), and the provider OAuth's device authorization grant (RFC 8628).

  --token-file FILE    write the token to this file, with mode 0600, and do not print it; all commands read it with
                       `--token file:FILE` or TAUT_OPERATOR_TOKEN=file:FILE
  --scopes SCOPES      what the token may do, as for `tokens create` (default all that the user may)
  --expires WHEN       30m, 12h (the default), up to 7d
  --name NAME          the token's name in lists (default the name of this host)
  --api URL            the coordinator's URL (default $TAUT_API or http://127.0.0.1:8288); https:// or on this host
  --ca FILE            with https://: trust the certificate authorities in this PEM file (default $TAUT_CA), instead
                       of those in the system's store
  --insecure           send the token over http:// from another host all the same
  --json               print the API's answer as JSON
";

const AUDIT: &str = concat!(
    "\
taut-coordinator audit list [--since TIME] [--until TIME]
taut-coordinator audit export [--since TIME] [--until TIME]

Prints every change: when, by whom, from which address, and what. `export` prints one JSON object a line, with the object
before and after the change. Entries are kept for a year (`serve --audit-days`), failed sign-ins for 30 days.

  --since TIME         entries of this time and later, in UTC: 2026-11-28 or 2026-11-28T09:00
  --until TIME         entries before this time
",
    remote_options!()
);

const WEBHOOKS: &str = concat!(
    "\
taut-coordinator webhooks list
taut-coordinator webhooks create URL [--network NAME] [--events EVENTS]
taut-coordinator webhooks remove ID
taut-coordinator webhooks test ID

Webhooks are URLs to which the coordinator sends each new entry of the audit log, signed (docs/webhooks.md). `create`
prints the secret of the signature once. `test` sends one event of the kind `test` now, and prints the result; if it
succeeds, a webhook that was disabled after three days of failures goes on. URLs are https, at public addresses, unless
the coordinator runs with `serve --webhooks-allow-private`.

  --network NAME       changes in this network only; by default all changes
  --events EVENTS      kinds of changes as `audit list` shows them, with commas: node-renamed,key-created (default all)
",
    remote_options!()
);

const BACKUP: &str = "\
taut-coordinator backup FILE [--state DIR] [--config FILE] [--json]
taut-coordinator restore FILE [--state DIR | --database URL] [--config FILE] [--force] [--json]
taut-coordinator check [--state DIR | --database URL] [--config FILE] [--json]

`backup` writes a consistent, checked copy of the database to a new file; the coordinator may be running. The file
contains its private key: keep it as private as the original. `restore` restores a backup while the coordinator is
stopped: addresses and numbers that were assigned after the backup are not assigned again, and nodes that joined after
it have to join again. `check` prints `ok`, or the damages; it also reads the certificate and key of `serve`.

A PostgreSQL database is saved with `pg_dump` or by its server's own backups, and brought back by the same means. Run
`restore --database URL` without a file afterwards, before the coordinator starts: numbers and addresses are skipped.

  --state DIR          the coordinator's state directory (default /var/lib/taut-coordinator)
  --database URL       of `restore` and `check`: the PostgreSQL database (default $TAUT_DATABASE)
  --config FILE        the configuration file of `serve`, for both (default $TAUT_CONFIG or /etc/taut/coordinator.toml)
  --json               print one object: of `backup` {\"schema\":1,\"backup\"}, of `restore` {\"schema\":1,\"restored\",\"replaced\",
                       \"to_check\"}, of `check` {\"schema\":1,\"ok\":true}, or the failure
  --force              replace an existing database, which is kept under another name
";
