//! `taut why`: explains the path to a peer: direct or relayed, why, and how to fix it; with a port, also what the policy says about it (`reach`).

mod reach;

use std::fmt::Write;
use std::net::IpAddr;

use taut_agent::api::{NatKind, PathKind, PeerRouteStatus, SessionStatus, Status, WayStatus, Why};
use taut_base::{Prefix, is_internet};
use taut_netmap::Connection;

use crate::client::Client;
use crate::fault::Fault;
use crate::flags::{Word, Words, default_socket, unexpected};
use crate::{output, peers, status, table};

pub(crate) const ARGUMENTS: &str = "PEER [--port PORT] [--proto PROTO] [--json] [--socket PATH]";

pub(crate) const DETAILS: &str = "\
PEER is a name (NAME or NAME.NETWORK), an overlay address, or an address behind a subnet router or an exit node. With a port, the coordinator is asked
whether the policy of the network lets this host open that connection, and which rule of which version decides. Prints the reasons in
sentences, then a table of all endpoints and relays that were tried:

WAY         an endpoint of the peer, or a relay
KNOWN FROM  source of the endpoint: the map, the peer, the address of packets from the peer (heard), or the relay
SENT        number of probes sent to it; ANSWERED: number of answers; HEARD: number of the peer's probes that came from it
MEANING     what the numbers show

--port PORT    destination port that is asked about
--proto PROTO  its protocol: tcp (default), udp, sctp, icmp, or a number from 1 to 255; protocols without ports need no --port
--json         print the same as an object, with a schema version";

pub(crate) fn run(mut words: Words) -> Result<(), Fault> {
    let (mut socket, mut json, mut peer) = (default_socket(), false, None);
    let (mut port, mut proto) = (None, None);
    while let Some(word) = words.next()? {
        match word {
            Word::Flag(flag) if flag == "--json" => json = true,
            Word::Flag(flag) if flag == "--socket" => socket = words.value()?.into(),
            Word::Flag(flag) if flag == "--port" => port = Some(reach::port(&words.value()?)?),
            Word::Flag(flag) if flag == "--proto" => proto = Some(reach::protocol(&words.value()?)?),
            Word::Value(name) if peer.is_none() => peer = Some(name),
            other => return Err(unexpected(&other)),
        }
    }
    let peer = peer.ok_or_else(|| Fault::usage("a peer is missing; `taut status` lists the peers"))?;
    let service = reach::service(proto, port)?;
    let mut client = Client::open(&socket)?;
    let status = client.status()?;
    peers::must_run(&status)?;
    if let Some(behind) = behind(&status, &peer)? {
        let why = client.why(&behind.router)?;
        let about = |(protocol, port)| Connection { peer: behind.address.to_string(), protocol, port };
        let reach = service.map(|service| reach::ask(&mut client, &about(service))).transpose()?;
        return match (json, reach) {
            (true, Some(reach)) => output::print_json(&reach::Explained { reach: &reach, path: Some(&why) }),
            (true, None) => output::print_json(&*why),
            (false, reach) => {
                let verdict = reach.map(|reach| reach::render_behind(&reach)).transpose()?.unwrap_or_default();
                output::print(&format!("{}\n{verdict}\n{}", behind.sentence(), render(&why)))
            }
        };
    }
    let Some((protocol, port)) = service else {
        let why = client.why(&peers::find(&status, &peer)?.name)?;
        return match json {
            true => output::print_json(&*why),
            false => output::print(&render(&why)),
        };
    };
    let peer = String::from(peers::short_name(&status, &peer));
    let known = peers::find(&status, &peer).ok().map(|peer| peer.name.clone());
    let reach = reach::ask(&mut client, &Connection { peer, protocol, port })?;
    let path = known.map(|name| client.why(&name)).transpose()?;
    match json {
        true => output::print_json(&reach::Explained { reach: &reach, path: path.as_deref() }),
        false => output::print(
            &(reach::render(&reach)? + &path.map_or_else(String::new, |why| format!("\n{}", render(&why)))),
        ),
    }
}

/// A router or an exit node that carries an address.
struct Behind {
    address: IpAddr,
    /// `None` for the internet.
    route: Option<Prefix>,
    router: String,
}

impl Behind {
    /// Says who carries the address.
    fn sentence(&self) -> String {
        let Self { address, route, router } = self;
        match route {
            Some(route) => format!("{address} is behind {router} ({route})"),
            None => format!("{address} is on the internet, through the exit node {router}"),
        }
    }
}

/// Finds the router of an address that no node has. Fails if a route leads there that this host does not use.
fn behind(status: &Status, peer: &str) -> Result<Option<Behind>, Fault> {
    let (Ok(address), Some(routes)) = (peer.parse::<IpAddr>(), &status.routes) else { return Ok(None) };
    let holds = |route: &&PeerRouteStatus| route.route.contains(address);
    let Some(route) = routes.peers.iter().filter(holds).max_by_key(|route| route.route.length()) else {
        let is_peer = status.peers.iter().any(|peer| peer.addresses.contains(&address));
        return if is_internet(address) && !is_peer { outside(status, address) } else { Ok(None) };
    };
    if let Some(router) = route.via.clone() {
        return Ok(Some(Behind { address, route: Some(route.route), router }));
    }
    let (hint, why) = match route.hidden_by {
        Some(local) => (String::new(), status::hidden(local)),
        None if routes.accepts => (String::new(), String::from("this host is a router of it, too")),
        None => {
            (String::from("`taut set --accept-routes` uses it"), String::from("this host uses no routes of others"))
        }
    };
    let message = format!(
        "{address} is behind {} ({}), and that route is not used: {why}",
        route.routers.join(", "),
        route.route
    );
    Err(Fault::failed(message, hint))
}

/// Finds the exit node that carries an address of the internet. Fails if there is none.
fn outside(status: &Status, address: IpAddr) -> Result<Option<Behind>, Fault> {
    let Some(exit) = &status.exit else { return Ok(None) };
    if let Some(left) = exit.paused_s {
        let left = table::fixed(left, 0);
        return Err(Fault::failed(
            format!(
                "{address} is on the internet, which this host reaches by its own way, in the clear: the exit node is paused for {left} s more"
            ),
            "`taut kill-switch resume` ends the pause",
        ));
    }
    match (&exit.via, exit.chosen.as_str(), &exit.problem) {
        (Some(via), ..) => Ok(Some(Behind { address, route: None, router: via.clone() })),
        (None, "none" | "", _) => Err(Fault::failed(
            format!("{address} is on the internet, which this host reaches by its own way: it uses no exit node"),
            "`taut set --exit-node NODE` uses one; `taut status` shows which this host may use",
        )),
        (None, _, Some(problem)) => {
            Err(Fault::failed(format!("{address} is on the internet, and {}", problem.message), problem.hint.clone()))
        }
        (None, chosen, None) => Err(Fault::failed(
            format!("{address} is on the internet, and the exit node {chosen} cannot be used now"),
            "`taut status` says why",
        )),
    }
}

/// Returns the explanation as text for people.
pub(crate) fn render(why: &Why) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{}: {}\n", why.peer, headline(why));
    for line in &why.said {
        let _ = writeln!(text, "{line}");
    }
    if !why.mend.is_empty() {
        let _ = writeln!(text, "\nWhat to do:");
    }
    for line in &why.mend {
        let _ = writeln!(text, "- {line}");
    }
    let ours = why.ours.as_ref().map(status::nat);
    let theirs = (why.theirs != NatKind::Unknown).then(|| why.theirs.to_string());
    let lanes = why.session.as_ref().map(lanes);
    let cipher = why.session.as_ref().map(|session| session.suite.clone()).filter(|suite| !suite.is_empty());
    let known: Vec<Vec<String>> = [("this host", ours), (&*why.peer, theirs), ("lanes", lanes), ("cipher", cipher)]
        .into_iter()
        .filter_map(|(name, nat)| Some(vec![format!("{name}:"), nat?]))
        .collect();
    if !known.is_empty() {
        let _ = write!(text, "\n{}", table::columns(&known));
    }
    if !why.ways.is_empty() {
        let _ = write!(text, "\n{}", table::columns(&rows(&why.ways)));
    }
    text
}

fn headline(why: &Why) -> String {
    let mut text = why.path.to_string();
    if let Some(milliseconds) = why.round_trip_ms.filter(|_| why.path.kind != PathKind::None) {
        let _ = write!(text, ", {} ms", table::fixed(milliseconds, 1));
    }
    if let Some(loss) = why.path.loss {
        let _ = write!(text, ", {} % lost", table::fixed(loss * 100.0, 0));
    }
    if let Some(since) = why.path.since_s {
        let _ = write!(text, ", for {}", table::time(since));
    }
    text
}

/// Describes the lanes of a session, and why there are no more.
fn lanes(session: &SessionStatus) -> String {
    let why = match session.lanes_limit.as_deref() {
        Some("native") => ": a stock WireGuard peer has one",
        Some("relayed") => {
            ": one lane on this relay (it is reached by WebSocket, or it or the peer runs release 0.1.0)"
        }
        Some("ports-closed") => ": a firewall or NAT lets only the first port in; open UDP 8288 to 8303 on both nodes",
        Some("opening") => ": more are being opened",
        Some("fixed") => ": fixed by the setting `lanes`",
        Some("one-core") => ": taut may use one core only",
        Some("no-gain") => ": more were tried a short time ago and carried no more",
        Some("not-needed") => ": more are opened when several transfers need them",
        _ => "",
    };
    match session.lanes {
        0 | 1 => format!("1{why}"),
        all => format!("{} of {all}{why}", session.lanes_in_use),
    }
}

fn rows(ways: &[WayStatus]) -> Vec<Vec<String>> {
    let head = ["WAY", "KNOWN FROM", "SENT", "ANSWERED", "HEARD", "LAST HEARD", "ROUND TRIP", "MEANING"];
    let mut rows = vec![head.map(String::from).to_vec()];
    rows.extend(ways.iter().map(|way| {
        let name = way.relay.as_ref().map_or_else(|| way.endpoint.to_string(), |relay| format!("relay {relay}"));
        vec![
            name,
            way.known_from.join(", "),
            way.sent.to_string(),
            way.answered.to_string(),
            way.heard.to_string(),
            way.last_heard_s.map_or_else(|| String::from("never"), |since| format!("{} ago", table::time(since))),
            way.round_trip_ms
                .map_or_else(|| String::from("-"), |milliseconds| format!("{} ms", table::fixed(milliseconds, 1))),
            way.meaning.clone(),
        ]
    }));
    rows
}

#[cfg(test)]
mod tests;
