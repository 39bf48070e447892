//! Sending to webhooks (docs/webhooks.md): which URLs they may have, how a body is signed, and one request. It knows neither the database nor the API.

mod signature;
mod url;

use signature::{SIGNATURE, signature};

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use ureq::Agent;

use crate::outgoing::{Rule, agent, is_allowed};

/// Timeout of one request, 5 s. A server that needs longer answers first and works afterwards.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Sends to webhooks.
pub(crate) struct Sender {
    /// True if webhooks may be at http URLs and at private addresses.
    allow_private: bool,
    /// Ports at which this coordinator listens.
    own_ports: OnceLock<Vec<u16>>,
    /// Clients for http and for https, made when they are first needed: https needs the system's certificates.
    agents: [Mutex<Option<Agent>>; 2],
}

impl Sender {
    /// `allow_private` allows http URLs and private addresses.
    pub(crate) fn new(allow_private: bool) -> Self {
        Self { allow_private, own_ports: OnceLock::new(), agents: Default::default() }
    }

    /// Sets the ports at which this coordinator listens, to which it does not send. Only the first call has an effect.
    pub(crate) fn set_own_ports(&self, ports: Vec<u16>) {
        let _ = self.own_ports.set(ports);
    }

    /// Returns an error unless a webhook may have this URL. Names are resolved later, at each request.
    pub(crate) fn check(&self, url: &str) -> Result<(), String> {
        let host = url::host(url, self.allow_private)?;
        match host.trim_matches(['[', ']']).parse::<IpAddr>() {
            Ok(address) if !is_allowed(address, self.allow_private) => Err(refusal(&host)),
            _ => Ok(()),
        }
    }

    /// Sends a body, signed with the secret. An error says why it was not delivered, for the webhook's owner: it names no address, because the owner of one network
    /// must not learn names that only the coordinator's host can resolve. Blocks for up to [`TIMEOUT`].
    pub(crate) fn send(self: &Arc<Self>, url: &str, secret: &str, body: &[u8], now: i64) -> Result<u16, String> {
        // The settings may be others than when it was created.
        self.check(url)?;
        let request = self
            .agent(url.starts_with("https:"))?
            .post(url)
            .header("Connection", "close")
            .header("Content-Type", "application/json")
            .header("User-Agent", concat!("taut-coordinator/", env!("CARGO_PKG_VERSION")))
            .header(SIGNATURE, signature(secret, now, body));
        // The body of the answer is not read.
        let status = request.send(body).map_err(|error| error.to_string())?.status();
        match status.as_u16() {
            status @ 200..=299 => Ok(status),
            status @ 300..=399 => Err(format!("it answers {status}, and redirects are not followed")),
            status => Err(format!("it answers {status}")),
        }
    }

    fn agent(self: &Arc<Self>, is_https: bool) -> Result<Agent, String> {
        let mut kept = self.agents[usize::from(is_https)].lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(agent) = &*kept {
            return Ok(agent.clone());
        }
        let sender = Arc::downgrade(self);
        let rule: Rule = Box::new(move |host, address| {
            let is_open = |sender: Arc<Self>| sender.may_reach(address);
            if sender.upgrade().is_some_and(is_open) { Ok(()) } else { Err(refusal(host)) }
        });
        Ok(kept.insert(agent(TIMEOUT, is_https, rule)?).clone())
    }

    fn may_reach(&self, address: SocketAddr) -> bool {
        let is_own_port = || self.own_ports.get().is_some_and(|ports| ports.contains(&address.port()));
        is_allowed(address.ip(), self.allow_private) && !(is_own_port() && is_of_this_host(address.ip()))
    }
}

fn refusal(host: &str) -> String {
    format!("{host} has an address to which webhooks are not sent")
}

/// Returns true if this host has the address: only then can a socket be bound to it.
fn is_of_this_host(address: IpAddr) -> bool {
    UdpSocket::bind((address.to_canonical(), 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn fault_e15_nothing_is_sent_to_an_address_that_is_not_allowed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let closed = Arc::new(Sender::new(false));
        for host in ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0x7f000001", "2130706433", "127.1"] {
            // Without the flag http is refused before the name is resolved, so the resolver is asked as well.
            let url = format!("http://{host}:{port}/");
            assert!(closed.check(&url).is_err() && closed.send(&url, "s", b"{}", 0).is_err(), "{host}");
            let error = closed.agent(false).unwrap().post(&url).send("{}").err().unwrap().to_string();
            assert!(error.contains("webhooks are not sent"), "{host}: {error}");
        }
        assert!(listener.accept().is_err(), "nobody connected");
    }

    #[test]
    fn fault_e15_link_local_and_metadata_are_refused_with_the_flag_as_well() {
        let open = Arc::new(Sender::new(true));
        for url in
            ["http://169.254.169.254/", "http://[fe80::1]/", "http://[fd00:ec2::254]/", "http://100.100.100.200/"]
        {
            let error = open.agent(false).unwrap().post(url).send("{}").err().unwrap().to_string();
            assert!(open.check(url).is_err() && error.contains("webhooks are not sent"), "{url}: {error}");
        }
    }

    #[test]
    fn fault_e15_the_coordinators_own_port_is_refused_on_every_address_of_its_host() {
        let open = Sender::new(true);
        let [own, other] = ["127.0.0.1:8288", "127.0.0.1:8289"].map(|text| text.parse().unwrap());
        assert!(open.may_reach(own), "not known yet");
        open.set_own_ports(vec![8288]);
        assert!(!open.may_reach(own) && open.may_reach(other));
        assert!(!open.may_reach("127.0.0.9:8288".parse().unwrap()) && open.may_reach("10.9.9.9:8288".parse().unwrap()));
    }
}
