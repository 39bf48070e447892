//! The commands that ask a coordinator: `policy show`, `history`, `apply` and `rollback`.

use super::input;
use crate::cli::arguments::Arguments;
use crate::cli::remote::{Remote, in_network};
use crate::cli::table::{distance, table};
use crate::cli::{CommandError, complain};
use crate::contract::{ApplyPolicy, PolicyAnswer, PolicyEntry, PolicyList};

/// `policy show [VERSION]`: prints the policy in force, or a version.
pub(super) fn show(mut arguments: Arguments) -> Result<(), CommandError> {
    let version = arguments.word().map(|word| number(&word)).transpose()?;
    let network = arguments.value("network")?;
    let remote = Remote::new(&mut arguments)?;
    arguments.finish()?;
    let answer = remote.get(&place(version, network.as_deref()))?;
    remote.show_document(&answer, |answer: PolicyAnswer| {
        let PolicyEntry { version, author, comment, created_at } = answer.policy;
        let why = if comment.is_empty() { String::new() } else { format!(": {comment}") };
        let text = answer.text.trim_end();
        format!(
            "// version {version} in network {}, {} by {author}{why}\n{text}\n",
            answer.network,
            distance(created_at)
        )
    })
}

/// `policy history`: lists the versions, newest first.
pub(super) fn history(mut arguments: Arguments) -> Result<(), CommandError> {
    let network = arguments.value("network")?;
    let remote = Remote::new(&mut arguments)?;
    arguments.finish()?;
    let answer = remote.get(&format!("policy/versions{}", in_network(network.as_deref())))?;
    remote.show(&answer, |answer: PolicyList| {
        let heads = ["VERSION", "APPLIED", "BY", "COMMENT"].map(String::from).to_vec();
        let row = |entry: PolicyEntry| {
            vec![entry.version.to_string(), distance(entry.created_at), entry.author, entry.comment]
        };
        table(&std::iter::once(heads).chain(answer.versions.into_iter().map(row)).collect::<Vec<_>>())
    })
}

/// `policy apply FILE`: applies a policy.
pub(super) fn apply(mut arguments: Arguments) -> Result<(), CommandError> {
    let file = arguments.need("the file of the policy")?;
    let comment = arguments.value("comment")?.unwrap_or_default();
    let based_on = arguments.value("based-on")?.map(|word| number(&word)).transpose()?;
    let (force, network) = (arguments.switch("force"), arguments.value("network")?);
    let remote = Remote::new(&mut arguments)?;
    arguments.finish()?;
    let text = input::text(&file)?;
    applied(&remote, network.as_deref(), &ApplyPolicy { text, comment, based_on, force })
}

/// `policy rollback VERSION`: applies an earlier version again, as the next one.
pub(super) fn rollback(mut arguments: Arguments) -> Result<(), CommandError> {
    let version = number(&arguments.need("the version")?)?;
    let (force, network) = (arguments.switch("force"), arguments.value("network")?);
    let comment = arguments.value("comment")?.unwrap_or_else(|| format!("version {version} again"));
    let remote = Remote::new(&mut arguments)?;
    arguments.finish()?;
    let former: PolicyAnswer = remote.typed(&remote.get(&place(Some(version), network.as_deref()))?)?;
    applied(&remote, network.as_deref(), &ApplyPolicy { text: former.text, comment, based_on: None, force })
}

fn applied(remote: &Remote, network: Option<&str>, body: &ApplyPolicy) -> Result<(), CommandError> {
    let answer = remote.post(&format!("policy{}", in_network(network)), body)?;
    if let Ok(PolicyAnswer { too_old, .. }) = remote.typed::<PolicyAnswer>(&answer)
        && !too_old.is_empty()
    {
        complain(&format!("warning: these nodes are too old to enforce it: {}", too_old.join(", ")));
    }
    remote.show(&answer, |answer: PolicyAnswer| {
        format!("version {} of the policy is in force in network {}\n", answer.policy.version, answer.network)
    })
}

fn place(version: Option<i64>, network: Option<&str>) -> String {
    let network = in_network(network);
    match version {
        Some(version) => format!("policy/versions/{version}{network}"),
        None => format!("policy{network}"),
    }
}

fn number(word: &str) -> Result<i64, CommandError> {
    word.parse().map_err(|_| CommandError::Usage(format!("`{word}` is not the number of a version")))
}
