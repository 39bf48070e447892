//! `taut accept`: consents to the overlay prefixes that the coordinator wants instead of those in force.

use std::path::PathBuf;

use serde::Serialize;
use taut_agent::api::{Request, SCHEMA};
use taut_base::Prefix;

use crate::client::Client;
use crate::fault::Fault;
use crate::flags::{Word, Words, default_socket, unexpected};
use crate::output;

pub(crate) const ARGUMENTS: &str = "PREFIX... [--json] [--socket PATH]";

pub(crate) const DETAILS: &str = "The overlay's prefixes are kept as they were when this host first joined. When the coordinator wants others, `taut status` names\n\
     them, and the network goes on with the old ones until they are accepted here, as root. All that change have to be named.\n\
     Ask the operator first: a coordinator that was broken into can draw addresses of the local network into the overlay.\n\n\
     --json   print what was accepted as an object, with a schema version";

/// What the command line says.
struct Wish {
    prefixes: Vec<Prefix>,
    json: bool,
    socket: PathBuf,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Accepted {
    schema: u32,
    accepted: Vec<Prefix>,
}

pub(crate) fn run(words: Words) -> Result<(), Fault> {
    let Wish { prefixes, json, socket } = parse(words)?;
    let done = Client::open(&socket)?.change(&Request::AcceptPrefixes { prefixes: prefixes.clone() })?;
    if !done {
        return Err(Fault::failed("the daemon ended meanwhile", "start it with `taut up`, and accept again"));
    }
    match json {
        true => output::print_json(&Accepted { schema: SCHEMA, accepted: prefixes }),
        false => output::print("accepted; `taut status` shows the new addresses"),
    }
}

fn parse(mut words: Words) -> Result<Wish, Fault> {
    let mut wish = Wish { prefixes: Vec::new(), json: false, socket: default_socket() };
    while let Some(word) = words.next()? {
        match word {
            Word::Flag(flag) if flag == "--json" => wish.json = true,
            Word::Flag(flag) if flag == "--socket" => wish.socket = PathBuf::from(words.value()?),
            Word::Value(text) => {
                let prefix = text.parse().map_err(|error| Fault::usage(format!("`{text}`: {error}")))?;
                wish.prefixes.push(prefix);
            }
            other => return Err(unexpected(&other)),
        }
    }
    if wish.prefixes.is_empty() {
        return Err(Fault::usage("which prefixes? `taut status` names those that the coordinator wants"));
    }
    Ok(wish)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    #[test]
    fn prefixes_are_named_one_by_one() {
        let parse = |line: &str| parse(Words::new(line.split_whitespace().map(OsString::from)));
        let Wish { prefixes, json, socket } = parse("10.0.0.0/8 --json --socket /s fd00::/48").unwrap();
        assert_eq!(prefixes.iter().map(ToString::to_string).collect::<Vec<_>>(), ["10.0.0.0/8", "fd00::/48"]);
        assert_eq!((json, socket), (true, PathBuf::from("/s")));
        for line in ["", "10.0.0.0", "10.0.0.0/8 --fast"] {
            assert!(matches!(parse(line), Err(Fault::Usage { .. } | Fault::UnknownFlag { .. })), "{line}");
        }
    }
}
