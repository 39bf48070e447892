//! What `--help` says.

/// The help for a command, or of the program.
pub(super) fn text(command: Option<&str>) -> &'static str {
    match command {
        Some("serve") => SERVE,
        Some("nodes") => NODES,
        Some("keys") => KEYS,
        Some("networks") => NETWORKS,
        Some("relays" | "ticket-key") => RELAYS,
        Some("operator-token") => OPERATOR_TOKEN,
        Some("backup" | "restore" | "check") => BACKUP,
        _ => PROGRAM,
    }
}

/// The options of all commands that talk to a coordinator's HTTP API.
macro_rules! remote_options {
    () => {
        "\
  --json               print the API's answer as JSON
  --api URL            the coordinator's URL (default $TAUT_API or http://127.0.0.1:8288). Plain http:// is for loopback
                       addresses and `localhost` alone: the operator token would cross a network in clear text
  --ca FILE            with https://: trust the certificate authorities in this PEM file (default $TAUT_CA), instead
                       of those in the system's store
  --insecure           send the operator token over http:// to another host all the same
  --token TOKEN        the operator token (default $TAUT_OPERATOR_TOKEN)
"
    };
}

const PROGRAM: &str = "\
taut-coordinator: enrols nodes, hands out addresses, streams the network map

  taut-coordinator serve            run the coordinator
  taut-coordinator nodes …          list, rename, remove nodes
  taut-coordinator keys …           list, create, revoke enrolment keys (join tokens)
  taut-coordinator networks …       list, create, show, remove networks
  taut-coordinator relays …         list, add, remove relays
  taut-coordinator ticket-key       what a relay is told to trust
  taut-coordinator operator-token … create, list, revoke operator tokens
  taut-coordinator openapi          print the description of the HTTP API (OpenAPI 3.1)
  taut-coordinator backup FILE      write all it knows to a file, while it runs
  taut-coordinator restore FILE     put such a file back
  taut-coordinator check            look for damage in the database
  taut-coordinator version          print the version (--json)

`taut-coordinator COMMAND --help` tells more.
Exit status: 0 success, 1 failure, 2 usage error. With --json a failure is an object, too:
{\"schema\":1,\"error\":{\"message\",\"hint\"}}.
";

const SERVE: &str = "\
taut-coordinator serve [OPTIONS]

The first start makes the coordinator's key, a network, a reusable join token (valid for 90 days) and an operator
token. A terminal is shown the two tokens once; anything else that standard output may be, such as a journal, gets the
name of a file in the state directory that holds them (`first-tokens`, mode 0600): read it, and delete it.
  operator-token: tautop-…          for `nodes`, `keys`, `networks` and the HTTP API
  join-token: taut1-…               for `taut up --join` on each host
Every start prints `listening on ADDRESS:PORT` once it answers. SIGTERM and SIGINT end it.
It is a relay for its networks, too, so that nodes which no direct path joins reach each other all the same: open UDP
3478 and 3479 beside TCP 8288. What it relays is sealed from node to node. If the ports are taken it goes on without.
Nodes whose UDP is blocked reach it by WebSocket at the URL by which they reach the coordinator.

  --state DIR          where it keeps its database (default /var/lib/taut-coordinator). Holds the coordinator's
                       private key: back it up, keep it private
  --listen ADDR:PORT   (default [::]:8288, which is IPv4, too; 0.0.0.0:8288 where there is no IPv6)
  --url URL            where nodes reach it, such as http://203.0.113.7:8288 or https://taut.example; goes into
                       every join token; repeat for several (default: this host's address and the port)
  --relay-port PORT    UDP port of its relay (default 3478; the port after it answers STUN)
  --relay-address IP[:PORT]
                       where nodes reach the relay, if not by the address by which they reach the coordinator;
                       repeat for several
  --relay-metrics ADDR:PORT
                       answer /metrics for Prometheus and /status as JSON there: the relay's counters, without addresses
                       and keys; any port is open to all who reach it, so leave it on loopback
  --no-relay           be no relay
  --trusted-proxy P    prefix of reverse proxies in front, such as 10.0.0.0/8; limits and the log go by the client that
                       they name in Forwarded, X-Forwarded-For or by the PROXY protocol; repeat for several
  --log-format FORMAT  text (default) or json: the form of the log on standard error
  --log-level LEVELS   error, warn, info (default), debug or trace; others for some areas as in info,api=debug. Areas:
                       daemon, api, control, members, database, relay. SIGUSR1 records one level more, and after
                       trace those of the command line again
  --network NAME       the first network's name (default `default`); first start only
  --ipv4-prefix P      the first network's IPv4 prefix (default 100.64.0.0/10); first start only
";

const NODES: &str = concat!(
    "\
taut-coordinator nodes list [--network NAME]
taut-coordinator nodes rename NODE NEW-NAME [--network NAME]
taut-coordinator nodes remove NODE [--network NAME]

NODE is a name or a number. A removed node may join again with a join token; it is a new node then.

  --network NAME       needed when several networks have a node of that name; `list` shows all networks without it
",
    remote_options!()
);

const KEYS: &str = concat!(
    "\
taut-coordinator keys list [--network NAME]
taut-coordinator keys create [--one-off] [--expires 90d] [--network NAME]
taut-coordinator keys revoke ID

`create` prints a join token, once: only its hash is kept. `revoke` ends a key; nodes that used it stay.

  --one-off            for one node only
  --expires WHEN       30m, 24h, 90d (the default) or never
  --network NAME       needed by `create` when there are several networks; `list` shows all networks without it
",
    remote_options!()
);

const NETWORKS: &str = concat!(
    "\
taut-coordinator networks list
taut-coordinator networks show NAME
taut-coordinator networks create NAME [--ipv4-prefix 100.64.0.0/10]
taut-coordinator networks remove NAME [--force]

Each network has the IPv4 prefix that you choose and a random IPv6 one (RFC 4193). `remove` ends a network with its
enrolment keys and relays; it refuses while the network has members.

  --force              remove the network's members with it; each of them is told that it is no member any more
",
    remote_options!()
);

const RELAYS: &str = concat!(
    "\
taut-coordinator relays list [--network NAME]
taut-coordinator relays add NAME KEY ENDPOINT… [--stun-port PORT] [--web URL] [--network NAME]
taut-coordinator relays remove RELAY [--network NAME]
taut-coordinator ticket-key

A relay carries sealed packets between nodes that no direct path joins. Start one anywhere with
`taut-relay serve --trust KEY`, where KEY is what `ticket-key` prints, and add it with the key and the address that it prints.
The one called `coordinator` is the coordinator's own (see `serve`).

  --stun-port PORT     a second UDP port on which it answers STUN, so that nodes learn what kind of NAT they are behind
  --web URL            wss:// or ws:// URL of it, for nodes where UDP is blocked
  --network NAME       needed by `add` when there are several networks, and by `remove` when several have a relay of
                       that name; `list` shows all networks without it
",
    remote_options!()
);

const OPERATOR_TOKEN: &str = concat!(
    "\
taut-coordinator operator-token create [--state DIR]
taut-coordinator operator-token list
taut-coordinator operator-token revoke ID

`create` makes another operator token directly on the state directory (default /var/lib/taut-coordinator) and prints it
once: for an operator who lost the first one, or for one token per person. The coordinator may keep running. `revoke`
ends a token at once; the last valid one cannot be revoked. `list` and `revoke` take these options:

",
    remote_options!()
);

const BACKUP: &str = "\
taut-coordinator backup FILE [--state DIR]
taut-coordinator restore FILE [--state DIR] [--force]
taut-coordinator check [--state DIR] [--json]

`backup` writes one moment of the coordinator to a new file, checked; the coordinator may keep running. The file holds
its private key: keep it as private as the original. `restore` puts one back while the coordinator is stopped; what was
handed out after the backup is not handed out again, nodes that joined after it have to join again. `check` prints
`ok`, or what is damaged.

  --state DIR          the coordinator's state directory (default /var/lib/taut-coordinator)
  --json               of `check`: {\"schema\":1,\"ok\":true}, or the failure as an object
  --force              replace the coordinator that is there; its database is kept under another name
";
