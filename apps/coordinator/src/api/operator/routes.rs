//! The table of all requests. The router and the OpenAPI document are both made from it.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use super::document::document;
use super::health::{healthz, readyz};
use super::route::Route;
use super::{keys, names, networks, nodes, people, policy, relays, requests, tokens, webhooks};
use crate::contract::{
    AddRelay, ApplyPolicy, ApproveRequest, ChangeNames, ChangeNetwork, ChangeNode, CreateKey, CreateNetwork,
    CreatedKey, DeniedRequest, ErrorCode, HealthAnswer, KeyList, NamesAnswer, NetworkAnswer, NetworkList, NodeAnswer,
    NodeList, OperatorTokenList, PolicyAnswer, PolicyList, PolicyVersionsQuery, ReadyAnswer, RelayAnswer, RelayList,
    RelayTokenAnswer, RemoveNetworkQuery, RemovedNetwork, RemovedNode, RemovedRelay, RequestAnswer, RequestList,
    RevokedKey, RevokedOperatorToken, TicketKeyAnswer,
};
use crate::state::{Access, Area};

/// Returns the table.
pub(in crate::api) fn routes() -> Vec<Route> {
    let node = "the node's name or number";
    let network = "the network's name or number";
    let read = |area| (area, Access::Read);
    let write = |area| (area, Access::Write);
    let mut all = vec![
        Route::get(
            "/healthz",
            "health",
            "Tells that the process lives and answers. Asks the database nothing.",
            healthz,
        )
        .open()
        .answers::<HealthAnswer>(),
        Route::get(
            "/readyz",
            "readiness",
            "Tells whether new connections should come to this coordinator, and what the operator should look at.",
            readyz,
        )
        .open()
        .answers::<ReadyAnswer>(),
        Route::get("/api/v1/openapi.json", "describe", "Returns this document.", describe).needs(read(Area::Description)),
        Route::get("/api/v1/networks", "listNetworks", "Lists the networks.", networks::list).needs(read(Area::Networks)).answers::<NetworkList>(),
        Route::post("/api/v1/networks", "createNetwork", "Creates a network.", networks::create).needs(write(Area::Networks)).everywhere()
            .body::<CreateNetwork>()
            .answers::<NetworkAnswer>()
            .fails(&[ErrorCode::BadName, ErrorCode::BadPrefix, ErrorCode::NetworkExists]),
        Route::get("/api/v1/networks/{name}", "showNetwork", "Returns one network.", networks::show).needs(read(Area::Networks))
            .named_by("name", network)
            .answers::<NetworkAnswer>()
            .fails(&[ErrorCode::NoSuchNetwork]),
        Route::patch(
            "/api/v1/networks/{name}",
            "changeNetwork",
            "Changes how nodes are admitted to a network, and how long memberships last.",
            networks::change,
        )
        .needs(write(Area::Networks))
        .named_by("name", network)
        .body::<ChangeNetwork>()
        .answers::<NetworkAnswer>()
        .fails(&[ErrorCode::NoSuchNetwork, ErrorCode::BadExpiry]),
        Route::delete("/api/v1/networks/{name}", "removeNetwork", "Removes a network.", networks::remove).needs(write(Area::Networks))
            .named_by("name", network)
            .query::<RemoveNetworkQuery>()
            .answers::<RemovedNetwork>()
            .fails(&[ErrorCode::NoSuchNetwork, ErrorCode::NetworkNotEmpty]),
        Route::get("/api/v1/names", "showNames", "Returns the names that an operator chose for a network.", names::show)
            .needs(read(Area::Networks))
            .in_network()
            .answers::<NamesAnswer>()
            .fails(&[ErrorCode::WhichNetwork]),
        Route::patch(
            "/api/v1/names",
            "changeNames",
            "Changes the base domain, the records and the domains of other servers of a network; with If-Match only that version.",
            names::change,
        )
        .needs(write(Area::Networks))
        .in_network()
        .up_to(names::MAX_NAMES_BODY)
        .body::<ChangeNames>()
        .answers::<NamesAnswer>()
        .fails(&[
            ErrorCode::WhichNetwork,
            ErrorCode::BadDomain,
            ErrorCode::NoSuchName,
            ErrorCode::NameTaken,
            ErrorCode::Full,
            ErrorCode::Changed,
        ]),
        Route::get("/api/v1/keys", "listKeys", "Lists the enrolment keys.", keys::list).needs(read(Area::Keys))
            .in_network()
            .answers::<KeyList>(),
        Route::post(
            "/api/v1/keys",
            "createKey",
            "Creates an enrolment key; only this answer contains its join token.",
            keys::create,
        ).needs(write(Area::Keys))
        .body::<CreateKey>()
        .answers::<CreatedKey>()
        .fails(&[ErrorCode::BadExpiry, ErrorCode::BadTag, ErrorCode::WhichNetwork, ErrorCode::NoSuchNetwork]),
        Route::delete(
            "/api/v1/keys/{id}",
            "revokeKey",
            "Revokes an enrolment key; nodes that joined with it remain members.",
            keys::revoke,
        ).needs(write(Area::Keys))
        .numbered_by("id")
        .answers::<RevokedKey>()
        .fails(&[ErrorCode::NoSuchKey]),
        Route::get("/api/v1/nodes", "listNodes", "Lists the nodes.", nodes::list)
            .needs(read(Area::Nodes)).or_own()
            .in_network().answers::<NodeList>(),
        Route::patch(
            "/api/v1/nodes/{name}",
            "changeNode",
            "Changes a node: its name, tags and owner, and whether it takes part in the network.",
            nodes::change,
        )
        .needs(write(Area::Nodes)).or_own()
        .named_by("name", node)
        .in_network()
        .body::<ChangeNode>()
        .answers::<NodeAnswer>()
        .fails(&[
            ErrorCode::WhichNetwork,
            ErrorCode::NoSuchNode,
            ErrorCode::BadName,
            ErrorCode::NameTaken,
            ErrorCode::BadTag,
            ErrorCode::BadExpiry,
            ErrorCode::NoSuchRoute,
            ErrorCode::Full,
        ]),
        Route::get("/api/v1/policy", "showPolicy", "Returns the policy in force.", policy::show)
            .needs(read(Area::Policy))
            .in_network()
            .answers::<PolicyAnswer>()
            .fails(&[ErrorCode::WhichNetwork]),
        Route::post("/api/v1/policy", "applyPolicy", "Applies a policy, which becomes the next version.", policy::apply)
            .needs(write(Area::Policy))
            .in_network()
            .up_to(policy::MAX_POLICY_BODY)
            .body::<ApplyPolicy>()
            .answers::<PolicyAnswer>()
            .fails(&[ErrorCode::WhichNetwork, ErrorCode::BadPolicy, ErrorCode::PolicyRefused, ErrorCode::Busy]),
        Route::get("/api/v1/policy/versions", "listPolicyVersions", "Lists the versions of the policy.", policy::versions)
            .needs(read(Area::Policy))
            .query::<PolicyVersionsQuery>()
            .answers::<PolicyList>()
            .fails(&[ErrorCode::WhichNetwork, ErrorCode::NoSuchNetwork]),
        Route::get(
            "/api/v1/policy/versions/{version}",
            "showPolicyVersion",
            "Returns a version of the policy.",
            policy::version,
        )
        .needs(read(Area::Policy))
        .numbered_by("version")
        .in_network()
        .answers::<PolicyAnswer>()
        .fails(&[ErrorCode::WhichNetwork, ErrorCode::NoSuchPolicy]),
        Route::get("/api/v1/requests", "listRequests", "Lists the machines that wait for approval.", requests::list)
            .needs(read(Area::Nodes))
            .answers::<RequestList>(),
        Route::get("/api/v1/requests/{code}", "showRequest", "Returns the request with this code.", requests::show)
            .needs(read(Area::Nodes))
            .or_own()
            .named_by("code", "the code that the machine shows")
            .answers::<RequestAnswer>()
            .fails(&[ErrorCode::NoSuchRequest]),
        Route::post(
            "/api/v1/requests/{code}/approve",
            "approveRequest",
            "Approves a machine: it becomes a node of a network, or its membership is renewed.",
            requests::approve,
        )
        .needs(write(Area::Nodes)).or_own()
        .named_by("code", "the code that the machine shows")
        .body::<ApproveRequest>()
        .answers::<NodeAnswer>()
        .fails(&[
            ErrorCode::NoSuchRequest,
            ErrorCode::KeyRevoked,
            ErrorCode::NoSuchNetwork,
            ErrorCode::WhichNetwork,
            ErrorCode::BadTag,
            ErrorCode::Full,
        ]),
        Route::delete("/api/v1/requests/{code}", "denyRequest", "Denies the request of a machine.", requests::deny)
            .needs(write(Area::Nodes))
            .named_by("code", "the code that the machine shows")
            .answers::<DeniedRequest>()
            .fails(&[ErrorCode::NoSuchRequest]),
        Route::delete("/api/v1/nodes/{name}", "removeNode", "Removes a node from its network.", nodes::remove).needs(write(Area::Nodes)).or_own()
            .named_by("name", node)
            .in_network()
            .answers::<RemovedNode>()
            .fails(&[ErrorCode::WhichNetwork, ErrorCode::NoSuchNode]),
        Route::get("/api/v1/relays", "listRelays", "Lists the relays, the coordinator's own first.", relays::list).needs(read(Area::Relays))
            .in_network()
            .answers::<RelayList>(),
        Route::post("/api/v1/relays", "addRelay", "Adds a relay to a network; its members learn of it.", relays::add).needs(write(Area::Relays))
            .body::<AddRelay>()
            .answers::<RelayAnswer>()
            .fails(&[
                ErrorCode::BadName,
                ErrorCode::BadRelay,
                ErrorCode::RelayExists,
                ErrorCode::WhichNetwork,
                ErrorCode::NoSuchNetwork,
            ]),
        Route::delete("/api/v1/relays/{name}", "removeRelay", "Removes a relay from a network.", relays::remove).needs(write(Area::Relays))
            .named_by("name", "the relay's name or number")
            .in_network()
            .answers::<RemovedRelay>()
            .fails(&[ErrorCode::WhichNetwork, ErrorCode::NoSuchRelay, ErrorCode::OwnRelay]),
        Route::get(
            "/api/v1/relay-token",
            "showRelayToken",
            "Returns the line with which a relay serves this coordinator's nodes, for `taut-relay serve --coordinator`.",
            relays::relay_token,
        ).needs(read(Area::Relays))
        .answers::<RelayTokenAnswer>(),
        Route::get(
            "/api/v1/ticket-key",
            "showTicketKey",
            "Returns the key that verifies this coordinator's relay tickets, for `taut-relay serve --trust`.",
            relays::ticket_key,
        ).needs(read(Area::Relays))
        .answers::<TicketKeyAnswer>(),
        Route::get(
            "/api/v1/operator-tokens",
            "listTokens",
            "Lists the operator tokens, without their secrets.",
            tokens::list,
        ).needs(read(Area::Tokens)).everywhere()
        .answers::<OperatorTokenList>(),
        Route::delete(
            "/api/v1/operator-tokens/{id}",
            "revokeToken",
            "Revokes an operator token; the last valid one cannot be revoked.",
            tokens::revoke,
        ).needs(write(Area::Tokens)).everywhere()
        .numbered_by("id")
        .answers::<RevokedOperatorToken>()
        .fails(&[ErrorCode::NoSuchToken, ErrorCode::LastToken]),
    ];
    all.extend(people::routes());
    all.extend(webhooks::routes());
    all
}

/// Answers `GET /api/v1/openapi.json` with the document.
async fn describe() -> Response {
    (StatusCode::OK, Json(document(&routes()))).into_response()
}
