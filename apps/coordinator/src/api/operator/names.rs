//! `/api/v1/names`: the names that an operator chooses for a network.

use axum::body::Bytes;
use axum::extract::{Query, State as Shared};
use axum::http::HeaderMap;
use axum::response::Response;
use taut_netmap::{NameRecord, SplitDomain};

use super::people::{if_match, with_etag};
use super::{Failure, answer, parse};
use crate::api::Context;
use crate::contract::{ChangeNames, ConsentEntry, DomainEntry, NamesAnswer, NetworkQuery, RecordEntry, SchemaVersion};
use crate::state::{NamesChange, NamesView};

/// Limit on the body of a change, 256 KiB: as many records and domains as a network has.
pub(super) const MAX_NAMES_BODY: usize = 256 * 1024;

/// `GET`: returns the names.
pub(super) async fn show(
    Shared(context): Shared<Context>,
    Query(query): Query<NetworkQuery>,
) -> Result<Response, Failure> {
    Ok(whole(context.state.chosen_names(query.network.as_deref()).await?))
}

/// `PATCH`: changes the names. With If-Match only if they still have that version.
pub(super) async fn change(
    Shared(context): Shared<Context>,
    Query(query): Query<NetworkQuery>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Failure> {
    let version = if_match(&headers)?;
    let ChangeNames { base_domain, set_records, remove_records, set_domains, remove_domains } = parse(&body)?;
    let record = |RecordEntry { name, addresses }| NameRecord { name, addresses };
    let split = |DomainEntry { domain, servers }| SplitDomain { domain, servers };
    let change = NamesChange {
        base_domain,
        set_records: set_records.into_iter().map(record).collect(),
        remove_records,
        set_domains: set_domains.into_iter().map(split).collect(),
        remove_domains,
    };
    Ok(whole(context.state.change_names(query.network.as_deref(), change, version).await?))
}

fn whole(view: NamesView) -> Response {
    let NamesView { network, zone, need_consent } = view;
    let record = |NameRecord { name, addresses }| RecordEntry { name, addresses };
    let split = |SplitDomain { domain, servers }| DomainEntry { domain, servers };
    let consent =
        |(domain, fault): (String, taut_netmap::DomainFault)| ConsentEntry { domain, reason: fault.to_string() };
    let names = NamesAnswer {
        schema: SchemaVersion,
        network: network.name,
        domain: zone,
        base_domain: network.naming.base_domain,
        records: network.naming.records.into_iter().map(record).collect(),
        domains: network.naming.domains.into_iter().map(split).collect(),
        need_consent: need_consent.into_iter().map(consent).collect(),
    };
    with_etag(answer(names), network.names_version)
}
