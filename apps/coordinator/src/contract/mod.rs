//! The contract of the operator's HTTP API: its requests and answers as types. The server ([`crate::api`]), the commands ([`crate::cli`]) and the tests share
//! them, and `docs/spec/openapi.json` is generated from them.
//!
//! A later release of version 1 only adds fields. Both sides ignore fields that they do not know. Times are seconds since 1970.

mod failure;
mod fields;
mod keys;
mod names;
mod networks;
mod nodes;
mod people;
mod policy;
mod relays;
mod service;
mod terminal;
mod tokens;
mod webhooks;

pub(crate) use failure::{ErrorAnswer, ErrorBody, ErrorCode};
pub(crate) use keys::{CreateKey, CreatedKey, KeyEntry, KeyList, KeyState, RevokedKey};
pub(crate) use names::{ChangeNames, ConsentEntry, DomainEntry, NamesAnswer, RecordEntry};
pub(crate) use networks::{
    ChangeNetwork, CreateNetwork, NetworkAnswer, NetworkEntry, NetworkList, NetworkQuery, RemoveNetworkQuery,
    RemovedNetwork,
};
pub(crate) use nodes::{
    ApproveRequest, ChangeNode, DeniedRequest, NodeAnswer, NodeEntry, NodeList, NodeState, RemovedNode, RequestAnswer,
    RequestEntry, RequestList,
};
pub(crate) use people::{
    ActorEntry, ApiTokenEntry, ApiTokenList, ApiTokenState, AuditEntry, AuditList, AuditQuery, ChangePassword,
    CodeBody, ConfirmPassword, CreateApiToken, CreateUser, CreatedApiToken, CreatedUser, EditUserBody, EndedSessions,
    ExportAnswer, NewCodesAnswer, PageQuery, PasswordLink, RecoveryCodes, RemovedUser, ResetPassword, RevokedApiToken,
    RoleEntry, SessionAnswer, SessionEntry, SessionList, SetRole, SetUp, SignInBody, UserAnswer, UserEntry, UserList,
};
pub(crate) use policy::{ApplyPolicy, PolicyAnswer, PolicyEntry, PolicyList, PolicyVersionsQuery};
pub(crate) use relays::{
    AddRelay, RelayAnswer, RelayChannel, RelayEntry, RelayList, RelayLoadEntry, RelayTokenAnswer, RemovedRelay,
    TicketKeyAnswer,
};
pub(crate) use service::{HealthAnswer, HealthStatus, ReadyAnswer, ReadyStatus, SCHEMA, SchemaVersion};
pub(crate) use terminal::{BeginTerminalBody, FinishTerminal, TerminalAnswer, TerminalBegun, TerminalState};
pub(crate) use tokens::{OperatorTokenEntry, OperatorTokenList, OperatorTokenState, RevokedOperatorToken};
pub(crate) use webhooks::{
    CreateWebhook, CreatedWebhook, RemovedWebhook, TestedWebhook, WebhookBody, WebhookEntry, WebhookList, WebhookState,
};
