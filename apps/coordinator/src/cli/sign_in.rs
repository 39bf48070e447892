//! `sign-in`: a person signs in at the OpenID provider, for this terminal (RFC 8628).

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use serde_json::Value;
use taut_base::{is_printable, qr_lines};

use super::arguments::Arguments;
use super::command_error::{check_output, write_error};
use super::remote::Remote;
use super::shown::{json_text, shown};
use super::table::{distance, duration};
use super::token_file::{FILE, TokenFile, quoted};
use super::{CommandError, show};
use crate::contract::{
    ApiTokenEntry, BeginTerminalBody, FinishTerminal, SessionAnswer, TerminalAnswer, TerminalBegun, TerminalState,
    UserEntry,
};
use crate::state::{API_PREFIX, Secret};

/// Time by which requests get rarer each time the coordinator says that they come too often, 5 s (RFC 8628 section 3.5).
const SLOWER: Duration = Duration::from_secs(5);

/// Longest time between two requests because of answers that they come too often, 15 s: a person who has signed in waits that long before the terminal. A provider whose own interval is longer
/// gets that, and one step.
const SLOWEST: Duration = Duration::from_secs(15);

/// Longest time between two requests while there is no answer, 60 s.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Longest link and longest code that a person can use, 512 and 64 bytes. Real ones have about 80 and 9.
const LONGEST_LINK: usize = 512;
const LONGEST_CODE: usize = 64;

/// The secret of this command's requests.
const SECRET: &str = "the API token of a sign-in";

pub(super) fn run(mut arguments: Arguments) -> Result<(), CommandError> {
    let name = arguments.value("name")?.or_else(host_name);
    let (scopes, expires) = (arguments.value("scopes")?, arguments.value("expires")?);
    let file = arguments.value("token-file")?;
    let api = arguments.value("api")?.or_else(|| std::env::var("TAUT_API").ok());
    let remote = Remote::without_token(&mut arguments, api.as_deref().unwrap_or("http://127.0.0.1:8288"), SECRET)?;
    arguments.finish()?;
    let expires_in = match expires.map(|text| duration(&text)).transpose()? {
        Some(None) => return Err(CommandError::Usage(String::from("a terminal's token expires; write 12h or 7d"))),
        other => other.flatten(),
    };
    let file = file.as_deref().map(TokenFile::new).transpose()?;
    if file.is_none() {
        check_output()?;
    }
    let begun = remote.post("sign-in/terminal", &BeginTerminalBody { name, scopes, expires_in })?;
    let begun: TerminalBegun = remote.typed(&begun)?;
    write_error(&invitation(&begun)?);
    let (token, answer) = wait(&remote, begun)?;
    deliver(&remote, file.as_ref(), &token, answer)
}

/// Returns the name of this host for the token, if it can be one.
fn host_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    let name = name.trim();
    (1..=64).contains(&name.len()).then(|| String::from(name)).filter(|name| name.chars().all(is_printable))
}

/// Returns what the person reads. An error if the coordinator names a link or a code that would show something else than it is.
fn invitation(begun: &TerminalBegun) -> Result<String, CommandError> {
    let TerminalBegun { page, page_with_code, code, .. } = begun;
    let is_url = |url: &String| {
        let is_web = url.starts_with("https://") || url.starts_with("http://");
        is_web && url.len() <= LONGEST_LINK && url.bytes().all(|byte| byte.is_ascii_graphic())
    };
    let is_code = (1..=LONGEST_CODE).contains(&code.len()) && code.chars().all(is_printable);
    if !is_url(page) || !page_with_code.iter().all(is_url) || !is_code {
        return Err(CommandError::Run(String::from(
            "the coordinator's answer has a link or a code that cannot be shown",
        )));
    }
    let link = page_with_code.as_ref().unwrap_or(page);
    let square = qr_lines(link).filter(|_| std::io::stderr().is_terminal()).map(|lines| format!("{lines}\n"));
    let direct = page_with_code.as_ref().map(|page| format!("or open {page}\n")).unwrap_or_default();
    Ok(format!(
        "{}Sign in with a browser, on this host or another one.\n\nopen    {page}\ncode    {code}\n{direct}\nwaiting …\n",
        square.unwrap_or_default()
    ))
}

/// Asks until the person has signed in. Returns the token, and the answer without it.
fn wait(remote: &Remote, begun: TerminalBegun) -> Result<(String, Value), CommandError> {
    let start = Instant::now();
    let life = Duration::from_secs(begun.expires_in.unsigned_abs());
    let mut pace = Pace::new(begun.interval);
    let mut pause = pace.interval;
    let body = FinishTerminal { secret: begun.secret };
    loop {
        std::thread::sleep(pause.min(life.saturating_sub(start.elapsed())));
        if start.elapsed() >= life {
            return Err(CommandError::Run(format!(
                "nobody has signed in within {} min, so the code has expired; run the command again",
                life.as_secs().div_ceil(60)
            )));
        }
        // The coordinator or the provider is away for a moment: the person may be signing in all the same.
        let Some(mut answer) = remote.post_patiently("sign-in/terminal/finish", &body)? else {
            pause = (pause * 2).min(LONGEST_PAUSE);
            continue;
        };
        let TerminalAnswer { state, secret, .. } = remote.typed(&answer)?;
        match (state, secret) {
            (TerminalState::Done, Some(secret)) => {
                if !is_api_token(&secret) {
                    return Err(CommandError::Run(String::from(
                        "the coordinator's answer has no API token; the server at --api is not a taut-coordinator, or of another release",
                    )));
                }
                answer["secret"].take();
                return Ok((secret, answer));
            }
            (TerminalState::SlowDown, _) => pace.slow_down(),
            _ => pace.keep_on(),
        }
        pause = pace.interval;
    }
}

/// Time between two requests while the person signs in.
///
/// The coordinator asks for fewer requests for two reasons, and does not say which: the provider's answer was `slow_down`, or the host's address or this sign-in has asked too often. The former lasts:
/// the interval must be 5 s longer for all later requests of the sign-in (RFC 8628 section 3.5). So one step lasts. Further steps end after an answer of the provider,
/// which then came at an interval that suits the provider.
struct Pace {
    interval: Duration,
    first: Duration,
    least: Duration,
    most: Duration,
}

impl Pace {
    fn new(seconds: u64) -> Self {
        let interval = Duration::from_secs(seconds).clamp(Duration::from_secs(1), LONGEST_PAUSE);
        Self { interval, first: interval, least: interval, most: SLOWEST.max(interval + SLOWER) }
    }

    /// Changes the interval after the answer that requests come too often.
    fn slow_down(&mut self) {
        self.least = self.first + SLOWER;
        self.interval = (self.interval + SLOWER).min(self.most);
    }

    /// Changes the interval after another answer.
    fn keep_on(&mut self) {
        self.interval = self.interval.saturating_sub(SLOWER).max(self.least);
    }
}

/// Returns true if the text is an API token, and nothing more.
fn is_api_token(text: &str) -> bool {
    text.strip_prefix(API_PREFIX).and_then(Secret::from_base64url).is_some()
}

/// Prints the token, or writes it to the file.
fn deliver(remote: &Remote, file: Option<&TokenFile>, token: &str, mut answer: Value) -> Result<(), CommandError> {
    let TerminalAnswer { token: entry, .. } = remote.typed(&answer)?;
    let Some(ApiTokenEntry { id, name, user, scopes, expires_at, .. }) = entry else {
        return Err(CommandError::Run(String::from("the coordinator's answer does not describe the token")));
    };
    let lost = format!("the token exists all the same: an owner ends it with `taut-coordinator tokens revoke {id}`");
    let lines = match file {
        Some(file) => {
            let path = file.path();
            let failed = |error| CommandError::Run(format!("the token cannot be written to {path}: {error}; {lost}"));
            file.write(token).map_err(failed)?;
            format!("token-file: {path}\nexport TAUT_OPERATOR_TOKEN={}\n", quoted(&format!("{FILE}{path}")))
        }
        None => {
            answer["secret"] = Value::from(token);
            format!("token: {token}\n")
        }
    };
    let expiry = expires_at.map_or_else(|| String::from("never expires"), |at| format!("expires {}", distance(at)));
    let account = remote.get_as(token, "session").and_then(|answer| remote.typed::<SessionAnswer>(&answer));
    let person = account.ok().and_then(|answer| answer.user).map(|user| person(&user));
    write_error(&format!(
        "Signed in as {}.\nAPI token {id} ({}), scopes {}, {expiry}; `taut-coordinator tokens revoke {id}` signs out.\n",
        shown(&person.or(user).unwrap_or_default()),
        shown(&name),
        shown(&scopes)
    ));
    let text = if remote.prints_json() { json_text(&answer) } else { lines };
    show(&text).map_err(|failed| failed.with_consequence(&lost))
}

/// Returns how a person is called, and what it lacks.
fn person(user: &UserEntry) -> String {
    let email = user.email.as_ref().map(|email| format!(", {email}")).unwrap_or_default();
    let lack = if user.roles.is_empty() {
        format!("; no role yet: an owner gives one with `taut-coordinator users role {} ROLE`", user.id)
    } else {
        String::new()
    };
    format!("{}{email}{lack}", user.display_name)
}

#[cfg(test)]
mod tests {
    use taut_base::encode_base64url;

    use super::*;

    fn begun(page: &str, page_with_code: Option<&str>, code: &str) -> TerminalBegun {
        TerminalBegun {
            schema: crate::contract::SchemaVersion,
            secret: String::from("secret"),
            code: String::from(code),
            page: String::from(page),
            page_with_code: page_with_code.map(String::from),
            expires_in: 600,
            interval: 5,
        }
    }

    #[test]
    fn a_person_reads_the_link_and_the_code_and_nothing_that_moves_the_cursor() {
        let full = begun("https://a/device", Some("https://a/device?user_code=WDJB-MJHT"), "WDJB-MJHT");
        let text = invitation(&full).unwrap();
        assert!(text.contains("open    https://a/device\ncode    WDJB-MJHT\nor open https://a/device?user"), "{text}");
        assert!(!text.contains("secret"), "{text}");
        assert!(!invitation(&begun("https://a/device", None, "1")).unwrap().contains("or open"));
        for wrong in ["", "javascript:alert(1)", "file:///etc/passwd", "https://a/\u{1b}[2J", "https://a/ b"] {
            assert!(invitation(&begun(wrong, None, "1")).is_err(), "{wrong:?}");
            assert!(invitation(&begun("https://a", Some(wrong), "1")).is_err(), "{wrong:?}");
        }
        for wrong in ["", "1\u{1b}[2J", &"1".repeat(LONGEST_CODE + 1)] {
            assert!(invitation(&begun("https://a", None, wrong)).is_err(), "{wrong:?}");
        }
        let long = format!("https://a/{}", "a".repeat(LONGEST_LINK));
        assert!(invitation(&begun(&long, None, "1")).is_err());
        assert!(invitation(&begun("https://a", Some(&long), "1")).is_err());
    }

    #[test]
    fn requests_get_rarer_up_to_a_limit_and_more_frequent_again() {
        let mut pace = Pace::new(5);
        pace.keep_on();
        assert_eq!(pace.interval.as_secs(), 5);
        (0..100).for_each(|_| pace.slow_down());
        assert_eq!(pace.interval, SLOWEST);
        (0..3).for_each(|_| pace.keep_on());
        assert_eq!(pace.interval.as_secs(), 10, "one step lasts for this sign-in");
        pace.slow_down();
        assert_eq!(pace.interval, SLOWEST);
        pace.keep_on();
        assert_eq!(pace.interval.as_secs(), 10);
        for (named, used, slowest) in [(0, 1, 15), (60, 60, 65), (u64::MAX, 60, 65)] {
            let mut pace = Pace::new(named);
            assert_eq!(pace.interval.as_secs(), used, "{named}");
            (0..100).for_each(|_| pace.slow_down());
            assert_eq!(pace.interval.as_secs(), slowest, "{named}");
        }
    }

    #[test]
    fn only_an_api_token_is_printed_or_written() {
        let token = format!("{API_PREFIX}{}", encode_base64url(Secret::new().expose()));
        assert!(is_api_token(&token), "{token}");
        for wrong in [
            String::new(),
            String::from(API_PREFIX),
            token.replace(API_PREFIX, "tautop-"),
            format!("{token}\n"),
            format!("{token}A"),
            format!("{token}="),
            format!("{token};id"),
            format!("{token}\u{1b}[2J"),
            String::from(&token[..token.len() - 1]),
        ] {
            assert!(!is_api_token(&wrong), "{wrong:?}");
        }
    }
}
