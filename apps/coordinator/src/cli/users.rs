//! `users`: people who sign in, over the API. `set-up-link` works on the database, `set-up` and `set-password` use a link.

use std::io::{self, BufRead};

use serde_json::Value;

use super::arguments::Arguments;
use super::remote::{Remote, escape};
use super::serve::runtime;
use super::settings::{DATABASE, Settings};
use super::shown::json_text;
use super::table::{distance, table};
use super::{CommandError, no_verb, show};
use crate::contract::{
    CreateUser, CreatedUser, EditUserBody, EndedSessions, PasswordLink, RemovedUser, ResetPassword, SessionAnswer,
    SetRole, SetUp, UserAnswer, UserEntry, UserList,
};
use crate::state::new_set_up_link;

const VERBS: [&str; 15] = [
    "list",
    "show",
    "create",
    "edit",
    "disable",
    "enable",
    "role",
    "reset",
    "end-sessions",
    "remove-codes",
    "remove",
    "export",
    "whoami",
    "set-up-link",
    "set-up",
];

pub(super) fn run(mut arguments: Arguments) -> Result<(), CommandError> {
    let verb = arguments.need("list, show, create, role or another verb")?;
    match verb.as_str() {
        "list" => list(arguments),
        "whoami" => {
            let remote = finished(arguments)?;
            remote.show(&remote.get("session")?, |answer: SessionAnswer| whoami(&answer))
        }
        "set-up-link" => set_up_link(arguments),
        "set-up" => use_link(arguments),
        "create" => create(arguments),
        "show" => {
            let path = path(&mut arguments)?;
            let remote = finished(arguments)?;
            remote.show(&remote.get(&path)?, one)
        }
        "edit" => {
            let path = path(&mut arguments)?;
            let email = arguments.value("email")?.map(|email| Some(email).filter(|email| !email.is_empty()));
            let body = EditUserBody { display_name: arguments.value("display-name")?, email, disabled: None };
            let remote = finished(arguments)?;
            remote.show(&remote.patch(&path, &body)?, one)
        }
        "disable" | "enable" => {
            let path = path(&mut arguments)?;
            let body = EditUserBody { disabled: Some(verb == "disable"), ..EditUserBody::default() };
            let remote = finished(arguments)?;
            remote.show(&remote.patch(&path, &body)?, one)
        }
        "role" => {
            let path = path(&mut arguments)?;
            let role = arguments.need("the role, or `none`")?;
            let body = SetRole { network: arguments.value("network")?, role: Some(role).filter(|role| role != "none") };
            let remote = finished(arguments)?;
            let roles = |answer: UserAnswer| format!("{}: {}\n", answer.user.name, roles(&answer.user));
            remote.show(&remote.post(&format!("{path}/role"), &body)?, roles)
        }
        "reset" => {
            let path = path(&mut arguments)?;
            let remote = finished(arguments)?;
            let answer = remote.post(&format!("{path}/password-link"), &Value::Null)?;
            remote.show(&answer, |answer: PasswordLink| format!("password-link: {}\n", answer.password_link))
        }
        "end-sessions" => {
            let path = path(&mut arguments)?;
            let remote = finished(arguments)?;
            let answer = remote.delete(&format!("{path}/sessions"))?;
            remote.show(&answer, |answer: EndedSessions| format!("sessions that were ended: {}\n", answer.ended))
        }
        "remove-codes" => {
            let path = path(&mut arguments)?;
            let remote = finished(arguments)?;
            remote.show(&remote.delete(&format!("{path}/codes"))?, one)
        }
        "remove" => {
            let path = path(&mut arguments)?;
            let remote = finished(arguments)?;
            let answer = remote.delete(&path)?;
            remote.show(&answer, |answer: RemovedUser| {
                format!("user {} is removed with all its data\n", answer.removed.name)
            })
        }
        "export" => {
            let path = path(&mut arguments)?;
            let remote = finished(arguments)?;
            show(&json_text(&remote.get(&format!("{path}/export"))?))
        }
        other => Err(no_verb("users", other, &VERBS)),
    }
}

/// Reads the options of a request when nothing else is expected.
fn finished(mut arguments: Arguments) -> Result<Remote, CommandError> {
    let remote = Remote::new(&mut arguments)?;
    arguments.finish()?;
    Ok(remote)
}

/// Returns the path of the user that the next word names.
fn path(arguments: &mut Arguments) -> Result<String, CommandError> {
    Ok(format!("users/{}", escape(&arguments.need("the user")?)))
}

fn create(mut arguments: Arguments) -> Result<(), CommandError> {
    let body = CreateUser {
        name: arguments.need("the name with which the user signs in")?,
        display_name: arguments.value("display-name")?,
        email: arguments.value("email")?,
        role: arguments.value("role")?,
    };
    let remote = finished(arguments)?;
    let answer = remote.post("users", &body)?;
    remote.show(&answer, |answer: CreatedUser| format!("password-link: {}\n", answer.password_link)).map_err(|failed| {
        let name = &body.name;
        failed.with_consequence(&format!(
            "user {name} exists all the same, and its link is shown once only: `taut-coordinator users reset {name}` makes another"
        ))
    })
}

/// Lists all pages.
fn list(mut arguments: Arguments) -> Result<(), CommandError> {
    let remote = Remote::new(&mut arguments)?;
    arguments.finish()?;
    let mut answer = remote.get("users?limit=500")?;
    while let Some(next) = answer["next"].as_i64() {
        let mut more = remote.get(&format!("users?limit=500&after={next}"))?;
        let users = more["users"].as_array_mut().map(std::mem::take).unwrap_or_default();
        if let Some(all) = answer["users"].as_array_mut() {
            all.extend(users);
        }
        answer["next"] = more["next"].take();
    }
    remote.show(&answer, |answer: UserList| text(answer.users))
}

fn text(users: Vec<UserEntry>) -> String {
    if users.is_empty() {
        return String::from(
            "no users; the set-up link of the first start, or `taut-coordinator users create`, makes one\n",
        );
    }
    let heads = ["ID", "NAME", "DISPLAY NAME", "ROLES", "STATE", "CODES", "SIGNED IN"].map(String::from).to_vec();
    let row = |user: UserEntry| {
        let roles = roles(&user);
        vec![
            user.id.to_string(),
            user.name,
            user.display_name,
            roles,
            String::from(state(user.disabled, user.can_sign_in)),
            String::from(if user.codes { "on" } else { "off" }),
            user.seen_at.map_or_else(|| String::from("never"), distance),
        ]
    };
    table(&std::iter::once(heads).chain(users.into_iter().map(row)).collect::<Vec<_>>())
}

fn state(disabled: bool, can_sign_in: bool) -> &'static str {
    match (disabled, can_sign_in) {
        (true, _) => "disabled",
        (false, true) => "valid",
        (false, false) => "no password yet",
    }
}

fn roles(user: &UserEntry) -> String {
    let role = |role: &crate::contract::RoleEntry| match &role.network {
        Some(network) => format!("{}@{network}", role.role),
        None => role.role.clone(),
    };
    let roles: Vec<String> = user.roles.iter().map(role).collect();
    if roles.is_empty() { String::from("none") } else { roles.join(" ") }
}

fn one(answer: UserAnswer) -> String {
    text(vec![answer.user])
}

fn whoami(answer: &SessionAnswer) -> String {
    let mut lines = format!("kind: {}\n", answer.actor.kind);
    if let Some(id) = answer.actor.id {
        lines.push_str(&format!("number: {id}\n"));
    }
    if !answer.actor.name.is_empty() {
        lines.push_str(&format!("name: {}\n", answer.actor.name));
    }
    // A token of the operator belongs to no user and has the rights of an owner.
    let roles = answer.user.as_ref().map_or_else(|| String::from("owner"), roles);
    lines.push_str(&format!("roles: {roles}\nscopes: {}\n", answer.scopes));
    lines
}

/// Makes a set-up link in the database.
fn set_up_link(mut arguments: Arguments) -> Result<(), CommandError> {
    let base = arguments.value("url")?.unwrap_or_else(|| String::from("http://127.0.0.1:8288"));
    let database = Settings::read(&mut arguments, &DATABASE)?.database()?;
    arguments.finish()?;
    let link = runtime()?.block_on(new_set_up_link(&database, &base)).map_err(CommandError::run)?;
    show(&format!("set-up: {link}\n"))
}

/// Uses a link: a set-up link if `--name` is given, otherwise a password link. The password is the first line of standard input.
fn use_link(mut arguments: Arguments) -> Result<(), CommandError> {
    let link = arguments.need("the link")?;
    let name = arguments.value("name")?;
    let display_name = arguments.value("display-name")?;
    let wrong = || {
        CommandError::Usage(String::from(
            "this is not a link of the coordinator; copy all of it, with what is after the `#`",
        ))
    };
    // Options are read before the link is checked, so that a wrong option is reported even if the link is wrong, too.
    let (base, fragment) = link.split_once("/link#").unwrap_or(("http://127.0.0.1:8288", ""));
    // `--api` replaces the coordinator's URL in the link. A link needs no token, so none is sent.
    let (api, _) = (arguments.value("api")?, arguments.value("token")?);
    let remote = Remote::without_token(&mut arguments, api.as_deref().unwrap_or(base), "the new password")?;
    arguments.finish()?;
    let (purpose, secret) = fragment.split_once('.').ok_or_else(wrong)?;
    let (secret, password) = (String::from(secret), password()?);
    match (purpose, name) {
        ("set-up", Some(name)) => {
            let body = SetUp { secret, name, display_name, password };
            let answer = remote.post("set-up", &body)?;
            remote.show(&answer, |answer: SessionAnswer| format!("user {} is an owner\n", answer.actor.name))
        }
        ("set-up", None) => {
            Err(CommandError::Usage(String::from("give the name with which you will sign in: --name NAME")))
        }
        ("password", _) => {
            let answer = remote.post("password", &ResetPassword { secret, password })?;
            remote.show(&answer, |answer: EndedSessions| {
                format!("the password is set; sessions that were ended: {}\n", answer.ended)
            })
        }
        _ => Err(wrong()),
    }
}

fn password() -> Result<String, CommandError> {
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    read.map_err(|error| CommandError::Run(format!("the password cannot be read from standard input: {error}")))?;
    Ok(String::from(line.trim_end_matches(['\r', '\n'])))
}
