//! Requests of machines that have no enrolment key: `taut up` without a token (docs/internals/devices.md).
//!
//! A request is bound to the machine key that the Noise handshake of its channel proved, and to the WireGuard key of its hello (fault E6). The code that a person
//! types only names it: another machine that knows the code learns and gains nothing. Requests are bounded per address, per prefix and in total, and last for
//! minutes (law 15).

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::json;
use taut_base::{KeyedHash, Meter, PrivateKey, PublicKey, Rate, Time, network, site};
use taut_netmap::{Hello, Request};
use taut_noise::dh;

use super::names::{free_name, is_number};
use super::party::{Caller, Change, PeopleError, record};
use super::{
    NodeView, Secret, State, StateError, addresses, admission, device_rules, devices, networks, own_devices, random,
    random_bits,
};
use crate::clock::unix_now;
use crate::log;
use crate::store::{
    Device, Grants, NetworkId, NetworkRow, NewKey, NewNode, NewRequest, NodeRow, Origin, Party, Reading, RequestRow,
    Writing,
};

/// Life of a request, 15 minutes in seconds: a person signs in, looks and approves.
pub(crate) const REQUEST_LIFE: i64 = 15 * 60;

/// Time for which a denied machine is refused, 10 minutes in seconds.
const DENIED_FOR: i64 = 10 * 60;

/// Time by which a request may be ahead of the clock, 300 s; a later one was made while the clock was wrong.
const AHEAD: i64 = 300;

/// Requests of one address, 8: a person sets up a few machines at once.
const PER_HOST: u64 = 8;

/// Requests of one prefix, 64.
const PER_SITE: u64 = 64;

/// Requests in all, 1,024. When there are as many, the prefix with the most loses its oldest.
const IN_ALL: u64 = 1_024;

/// New requests of one address: 16 at once, then one per 30 s. Each is a write to the disk.
const HOST: Rate = Rate::every(Duration::from_secs(30), 16);

/// New requests of one prefix: 64 at once, then one per 5 s.
const SITE: Rate = Rate::every(Duration::from_secs(5), 64);

/// New requests from everywhere: 256 at once, then one per second.
const ALL: Rate = Rate::every(Duration::from_secs(1), 256);

/// Letters of a code: consonants only, so that no code is a word (RFC 8628 section 6.1). 256 is not a multiple of 20, so bytes from 240 on are left out.
const LETTERS: &[u8; 20] = b"BCDFGHJKLMNPQRSTVWXZ";

/// Letters of a code, 8: there are 25 thousand million codes, and at most [`IN_ALL`] requests have one.
const CODE: usize = 8;

/// A request as the operator sees it.
pub(crate) struct RequestView {
    pub(crate) row: RequestRow,
    /// The network and the name of the member that asks to be approved again.
    pub(crate) member: Option<(String, String)>,
}

/// Properties that a person gives a machine when approving its request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Approval {
    /// The network; optional while there is only one.
    pub(crate) network: Option<String>,
    /// The node's name instead of the one that the machine asks for.
    pub(crate) name: Option<String>,
    pub(crate) tags: Vec<String>,
    pub(crate) owner: Option<String>,
}

/// State of a machine that asks.
#[derive(Debug)]
pub(crate) enum Asked {
    /// The machine is a member of this network.
    Member(NetworkId),
    /// The machine waits until a person answers its request.
    Waits(RequestRow),
}

/// Rates of new requests, in tables of fixed size.
pub(super) struct RequestRates {
    start: Instant,
    hash: KeyedHash,
    meters: Mutex<[Meter; 3]>,
}

impl RequestRates {
    pub(super) fn new() -> Self {
        let meters = Mutex::new([ALL, SITE, HOST].map(Meter::new));
        Self { start: Instant::now(), hash: KeyedHash::new(random()), meters }
    }

    /// Counts a new request from this address. Returns true if it is within all rates; otherwise it is not counted.
    fn take(&self, from: IpAddr, now: Instant) -> bool {
        let now = Time::from_duration(now.saturating_duration_since(self.start));
        let parties = [self.hash.of(&0_u8), self.hash.of(&site(from)), self.hash.of(&network(from))];
        let mut meters = self.meters.lock().unwrap_or_else(PoisonError::into_inner);
        let is_free = meters.iter().zip(parties).all(|(meter, party)| meter.has(party, now));
        is_free && meters.iter_mut().zip(parties).all(|(meter, party)| meter.take(party, now))
    }
}

impl State {
    /// Returns the state of a machine that asks to join without an enrolment key. The first time, its request is stored.
    pub(crate) async fn ask_to_join(
        &self,
        machine: PublicKey,
        hello: &Hello,
        from: IpAddr,
    ) -> Result<Asked, StateError> {
        let request = hello.request.as_ref().ok_or(StateError::NotAMember)?;
        dh(&PrivateKey::from_bytes(random()), &hello.node_key).map_err(|_| StateError::BadKey)?;
        let known = {
            let mut tx = self.store.read(Party::Unauthenticated).await?;
            asked(&mut tx, machine, hello.node_key, unix_now()).await?
        };
        match known {
            Some(asked) => Ok(asked),
            None => self.store_request(None, machine, (hello, request), from).await.map(Asked::Waits),
        }
    }

    /// Returns the request of a member that asks to be approved again. The first time, it is stored.
    pub(crate) async fn ask_again(
        &self,
        network: NetworkId,
        machine: PublicKey,
        hello: &Hello,
        from: IpAddr,
    ) -> Result<RequestRow, StateError> {
        let request = hello.request.as_ref().ok_or(StateError::NoPart)?;
        let known = self.store.read(self.party(network)).await?.request_of(machine).await?;
        match known.filter(|row| row.expires_at > unix_now() && row.network == Some(network)) {
            Some(row) if row.denied => Err(StateError::Denied),
            Some(row) if row.node_key == hello.node_key => Ok(row),
            _ => self.store_request(Some(network), machine, (hello, request), from).await,
        }
    }

    async fn store_request(
        &self,
        network: Option<NetworkId>,
        machine_key: PublicKey,
        (hello, request): (&Hello, &Request),
        from: IpAddr,
    ) -> Result<RequestRow, StateError> {
        if !self.request_rates.take(from, Instant::now()) {
            return Err(StateError::Requests);
        }
        let party = network.map_or(Party::Unauthenticated, |network| self.party(network));
        let (now, origin) = (unix_now(), Origin::new(from));
        let mut tx = self.store.write(party).await?;
        tx.forget_requests(now, now + AHEAD).await?;
        if tx.owners(hello.node_key).await?.iter().any(|(_, _, owner)| *owner != Some(machine_key)) {
            return Err(StateError::KeyConflict);
        }
        if let Some(former) = tx.request_of(machine_key).await? {
            // The former request of the same machine had another WireGuard key or was for another network: the new one replaces it.
            tx.delete_request(former.id).await?;
        }
        let counts = tx.count_requests(&origin).await?;
        if counts.host >= PER_HOST || counts.site >= PER_SITE {
            return Err(StateError::Requests);
        }
        if counts.all >= IN_ALL {
            tx.evict_request().await?;
        }
        let new = NewRequest {
            code: code(),
            network,
            machine_key,
            node_key: hello.node_key,
            name: taut_netmap::name_from_host(&request.name),
            program: admission::printable(&hello.version),
            address: from.to_canonical().to_string(),
            from: origin,
            expires_at: now + REQUEST_LIFE,
        };
        let row = tx.insert_request(&new, now).await?;
        tx.commit().await?;
        tracing::info!(target: log::MEMBERS, limited = taut_relay_server::log::MEMBERSHIP, event = "asked", code = row.code, name = row.name, machine = %machine_key, address = %from);
        Ok(row)
    }

    /// Returns the requests that wait, oldest first. A new machine asks for no network, so only a caller with a role in all networks sees its request: its code and
    /// address concern no single network.
    pub(crate) async fn requests(&self) -> Result<Vec<RequestView>, StateError> {
        let now = unix_now();
        let mut tx = self.store.read(Party::Operators).await?;
        let mut views = Vec::new();
        let caller = Caller::current();
        let waits = |row: &RequestRow| row.expires_at > now && !row.denied && caller.is_allowed(row.network);
        for row in tx.requests().await?.into_iter().filter(waits) {
            let member = match row.network {
                Some(network) => member_of(&mut tx, network, row.machine_key).await?,
                None => None,
            };
            views.push(RequestView { member: member.map(|(network, node)| (network.name, node.name)), row });
        }
        Ok(views)
    }

    /// Returns the request with this code, and the names of the networks in which the caller may approve it. Who has the code has it from the machine's user.
    pub(crate) async fn request(&self, code: &str) -> Result<(RequestView, Vec<String>), StateError> {
        let mut tx = self.store.read(Party::Operators).await?;
        let row = valid(&mut tx, code, unix_now()).await?;
        let mut networks = networks::listed(&mut tx, None).await?;
        networks.retain(|network| row.network.is_none_or(|wanted| wanted == network.id));
        let member = match row.network {
            Some(network) => member_of(&mut tx, network, row.machine_key).await?,
            None => None,
        };
        let caller = Caller::current();
        if member.as_ref().is_some_and(|(_, row)| !caller.may_touch(row)) || networks.is_empty() {
            return Err(StateError::NoRequest(String::from(code)));
        }
        let names = networks.into_iter().map(|network| network.name).collect();
        Ok((RequestView { member: member.map(|(network, node)| (network.name, node.name)), row }, names))
    }

    /// Approves the request with this code. Its machine becomes a member, or its membership is renewed.
    ///
    /// A member of the network approves machines of its own: it becomes their owner, gives no tags that it may not give, and where new nodes wait for approval they
    /// wait for an administrator still.
    pub(crate) async fn approve_request(&self, code: &str, approval: Approval) -> Result<NodeView, StateError> {
        let tags = device_rules::checked_tags(approval.tags)?;
        let mut owner = device_rules::checked_owner(approval.owner)?;
        let now = unix_now();
        let mut tx = self.store.write(Party::Operators).await?;
        let request = valid(&mut tx, code, now).await?;
        let owners = tx.owners(request.node_key).await?;
        if owners.iter().any(|(_, _, owner)| *owner != Some(request.machine_key)) {
            // Another machine became a member with this WireGuard key meanwhile (fault E6).
            return Err(StateError::NoRequest(String::from(code)));
        }
        let wanted = match request.network {
            Some(id) => id.to_string(),
            None => networks::named(&mut tx, approval.network.as_deref()).await?.id.to_string(),
        };
        let network = networks::named(&mut tx, Some(&wanted)).await?;
        if tx.is_former_key(network.id, request.node_key).await? {
            return Err(StateError::KeyRevoked);
        }
        let caller = Caller::current();
        let only_own = caller.only_own(network.id);
        if let Some(login) = only_own {
            if owner.as_deref().is_some_and(|owner| owner != login) {
                return Err(PeopleError::Forbidden.into());
            }
            own_devices::check_tags(&mut tx, network.id, login, &[], &tags).await?;
            owner = Some(String::from(login));
        }
        let version = tx.next_version(network.id, random_bits()).await?;
        let (row, before) = match tx.node_by_machine(network.id, request.machine_key).await? {
            // Not told apart from an unknown code: the member learns nothing of other people's devices.
            Some(row) if !caller.may_touch(&row) => return Err(StateError::NoRequest(String::from(code))),
            Some(row) => {
                let mut after = device_rules::approved(&network, &row.device, now);
                after.approved = row.device.approved || only_own.is_none() || !network.approval;
                if !tags.is_empty() {
                    after.tags = tags;
                }
                after.owner = owner.or(after.owner);
                tx.set_device(row.id, (&row.device, &after), version, now).await?;
                (NodeRow { device: after, version, ..row.clone() }, row.device)
            }
            // The node was removed while it waited for its renewal.
            None if request.network.is_some() => return Err(StateError::NoRequest(String::from(code))),
            None => {
                if let Some(login) = only_own {
                    own_devices::check_number(&mut tx, network.id, login).await?;
                }
                let device = Device { tags, owner, ..Device::default() };
                let mut device = device_rules::approved(&network, &device, now);
                device.approved = only_own.is_none() || !network.approval;
                let row = insert(&mut tx, &network, &request, (approval.name, device), version, now).await?;
                let before = Device { approved: false, ..row.device.clone() };
                (row, before)
            }
        };
        if !tx.delete_request(request.id).await? {
            return Err(StateError::NoRequest(String::from(code)));
        }
        let after = Some(json!({ "device": devices::value(&row.name, &row.device), "address": request.address }));
        let object = format!("node {}", row.id);
        let (network_id, action) = (Some(network.id), "request-approved");
        record(&mut tx, Change { network: network_id, action, object, before: None, after }).await?;
        tx.commit().await?;
        self.announce_device(&network, &row, &before, version);
        self.asked.send_modify(|_| {});
        tracing::info!(target: log::MEMBERS, event = "request-approved", network = network.name, node = row.id.0, name = row.name, address = request.address);
        Ok(self.view(&network, row))
    }

    /// Denies the request with this code. Only a caller who may see the request may deny it. Approval needs the code alone: the caller has it from the machine's user,
    /// and approves the machine for its own network.
    pub(crate) async fn deny_request(&self, code: &str) -> Result<RequestRow, StateError> {
        let now = unix_now();
        let mut tx = self.store.write(Party::Operators).await?;
        let request = valid(&mut tx, code, now).await?;
        if !Caller::current().is_allowed(request.network) {
            return Err(StateError::NoRequest(String::from(code)));
        }
        tx.deny_request(request.id, now + DENIED_FOR).await?;
        let after = Some(json!({ "name": request.name, "address": request.address }));
        let object = format!("request of {}", request.machine_key);
        record(&mut tx, Change { network: request.network, action: "request-denied", object, before: None, after })
            .await?;
        tx.commit().await?;
        self.asked.send_modify(|_| {});
        tracing::info!(target: log::MEMBERS, event = "request-denied", name = request.name, address = request.address);
        Ok(request)
    }

    /// Returns a receiver that changes whenever a request may have been answered here.
    pub(crate) fn answered(&self) -> tokio::sync::watch::Receiver<()> {
        self.asked.subscribe()
    }

    /// Returns this coordinator's URLs for nodes and browsers.
    pub(crate) fn urls(&self) -> &[String] {
        &self.urls
    }

    /// Returns the page that a person opens to approve a request; `None` if no URL of this coordinator is known.
    pub(crate) fn page_of(&self, code: &str) -> Option<String> {
        self.urls.first().map(|url| format!("{}/approve/{code}", url.trim_end_matches('/')))
    }
}

/// Returns the state of a machine that has asked before, or is a member; `None` if it is neither.
async fn asked(
    tx: &mut Reading,
    machine: PublicKey,
    node_key: PublicKey,
    now: i64,
) -> Result<Option<Asked>, StateError> {
    if let Some(network) = tx.networks_of(machine).await?.into_iter().next() {
        return Ok(Some(Asked::Member(network)));
    }
    match tx.request_of(machine).await?.filter(|row| row.expires_at > now && row.network.is_none()) {
        Some(row) if row.denied => Err(StateError::Denied),
        Some(row) if row.node_key == node_key => Ok(Some(Asked::Waits(row))),
        _ => Ok(None),
    }
}

async fn member_of(
    tx: &mut Reading,
    network: NetworkId,
    machine: PublicKey,
) -> Result<Option<(NetworkRow, NodeRow)>, StateError> {
    let Some(network) = tx.network(network).await? else { return Ok(None) };
    Ok(tx.node_by_machine(network.id, machine).await?.map(|row| (network, row)))
}

/// Returns the request with this code, if it waits.
async fn valid(tx: &mut Reading, code: &str, now: i64) -> Result<RequestRow, StateError> {
    let found = tx.request_by_code(&normal(code)).await?;
    let waits = found.filter(|row| row.expires_at > now && !row.denied);
    waits.ok_or_else(|| StateError::NoRequest(String::from(code)))
}

/// Makes the machine of a request a member. An enrolment key that is used up at once stands for the approval, so that each node has a key that it joined with.
async fn insert(
    tx: &mut Writing,
    network: &NetworkRow,
    request: &RequestRow,
    (name, device): (Option<String>, Device),
    version: u64,
    now: i64,
) -> Result<NodeRow, StateError> {
    let secret = Secret::new();
    let new_key = NewKey {
        network: network.id,
        hash: secret.hash(),
        reusable: false,
        expires_at: Some(now),
        grants: Grants::default(),
    };
    let key = tx.insert_key(&new_key, now - 1).await?;
    tx.use_key(key.id).await?;
    let wanted = name.unwrap_or_else(|| request.name.clone());
    let host = admission::take_host(tx, network, request.machine_key).await?;
    let new = NewNode {
        network: network.id,
        machine_key: request.machine_key,
        node_key: request.node_key,
        name: free_name(tx, network.id, if is_number(&wanted) { "node" } else { &wanted }).await?,
        ipv4: addresses::ipv4(network.ipv4, host),
        ipv6: addresses::ipv6(network.ipv6, host),
        program: request.program.clone(),
        version,
        key: key.id,
        from: Origin::new(request.address.parse().unwrap_or(IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED))),
        device,
    };
    Ok(tx.insert_node(&new, now).await?)
}

/// Returns a random code.
fn code() -> String {
    let mut code = String::with_capacity(CODE + 1);
    while code.len() < CODE + 1 {
        for byte in random::<32>().into_iter().filter(|byte| *byte < 240) {
            if code.len() == CODE / 2 {
                code.push('-');
            }
            if code.len() < CODE + 1 {
                code.push(char::from(LETTERS[usize::from(byte % 20)]));
            }
        }
    }
    code
}

/// Returns a code as a person may have typed it in the form in which it is stored.
fn normal(typed: &str) -> String {
    let letters: String = typed
        .chars()
        .filter(char::is_ascii_alphabetic)
        .map(|letter| letter.to_ascii_uppercase())
        .take(CODE + 1)
        .collect();
    match letters.len() {
        CODE => format!("{}-{}", &letters[..CODE / 2], &letters[CODE / 2..]),
        _ => letters,
    }
}

/// Returns true if a text can be the code of a request, and not the name of a node.
pub(crate) fn is_code(typed: &str) -> bool {
    let code = normal(typed);
    let letters = code.replace('-', "");
    letters.len() == CODE
        && letters.bytes().all(|letter| LETTERS.contains(&letter))
        && typed.chars().filter(char::is_ascii_alphabetic).count() == CODE
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn codes_differ_and_are_read_however_they_are_typed() {
        let codes: BTreeSet<String> = (0..1_000).map(|_| code()).collect();
        assert_eq!(codes.len(), 1_000);
        for code in &codes {
            assert!(code.len() == 9 && is_code(code), "{code}");
            for typed in [code.to_lowercase(), code.replace('-', ""), code.replace('-', " "), format!(" {code} ")] {
                assert_eq!(&normal(&typed), code);
            }
        }
        for text in ["web-1", "BCDF", "BCDF-GHJA", "BCDF-GHJKL", ""] {
            assert!(!is_code(text), "{text}");
        }
    }

    #[test]
    fn fault_e11_one_address_leaves_requests_to_others() {
        let (rates, now) = (RequestRates::new(), Instant::now());
        let possible = |from: &str| (0..1_000).filter(|_| rates.take(from.parse().unwrap(), now)).count();
        assert_eq!([possible("192.0.2.1"), possible("192.0.2.1"), possible("203.0.113.1")], [16, 0, 16]);
    }
}
