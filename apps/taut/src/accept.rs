//! `taut accept`: consents to the overlay prefixes that the coordinator wants instead of those in force.

use std::path::PathBuf;

use taut_base::Prefix;
use taut_keeper::api::Request;

use crate::client::Client;
use crate::fault::Fault;
use crate::flags::{Word, Words, default_socket, unexpected};
use crate::output;

pub(crate) const ARGUMENTS: &str = "PREFIX... [--socket PATH]";

pub(crate) const DETAILS: &str = "The overlay's prefixes are kept as they were when this host first joined. When the coordinator wants others, `taut status` names\n\
     them, and the network goes on with the old ones until they are accepted here, as root. All that change have to be named.\n\
     Ask the operator first: a coordinator that was broken into can draw addresses of the local network into the overlay.";

pub(crate) fn run(words: Words) -> Result<(), Fault> {
    let (prefixes, socket) = parse(words)?;
    let done = Client::open(&socket)?.change(&Request::AcceptPrefixes { prefixes })?;
    if !done {
        return Err(Fault::Failed(String::from(
            "the daemon ended meanwhile; start it with `taut up`, and accept again",
        )));
    }
    output::print("accepted; `taut status` shows the new addresses");
    Ok(())
}

fn parse(mut words: Words) -> Result<(Vec<Prefix>, PathBuf), Fault> {
    let (mut prefixes, mut socket) = (Vec::new(), default_socket());
    while let Some(word) = words.next()? {
        match word {
            Word::Flag(flag) if flag == "--socket" => socket = PathBuf::from(words.value()?),
            Word::Value(text) => {
                let prefix = text.parse().map_err(|error| Fault::usage(format!("`{text}`: {error}")))?;
                prefixes.push(prefix);
            }
            other => return Err(unexpected(&other)),
        }
    }
    if prefixes.is_empty() {
        return Err(Fault::usage("which prefixes? `taut status` names those that the coordinator wants"));
    }
    Ok((prefixes, socket))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    #[test]
    fn prefixes_are_named_one_by_one() {
        let parse = |line: &str| parse(Words::new(line.split_whitespace().map(OsString::from)));
        let (prefixes, socket) = parse("10.0.0.0/8 --socket /s fd00::/48").unwrap();
        assert_eq!(prefixes.iter().map(ToString::to_string).collect::<Vec<_>>(), ["10.0.0.0/8", "fd00::/48"]);
        assert_eq!(socket, PathBuf::from("/s"));
        for line in ["", "10.0.0.0", "10.0.0.0/8 --fast"] {
            assert!(matches!(parse(line), Err(Fault::Usage { .. })), "{line}");
        }
    }
}
