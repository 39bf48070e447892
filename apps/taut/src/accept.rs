//! `taut accept`: accepts overlay prefixes of the coordinator that differ from those in force.

use std::path::PathBuf;

use serde::Serialize;
use taut_agent::api::{ApiRequest, SCHEMA};
use taut_base::Prefix;

use crate::client::Client;
use crate::fault::Fault;
use crate::flags::{Word, Words, default_socket, unexpected};
use crate::output;

pub(crate) const ARGUMENTS: &str = "PREFIX... [--json] [--socket PATH]";

pub(crate) const DETAILS: &str = "The overlay prefixes stay as they were when this host first joined. If the coordinator announces others, `taut status` names them,\n\
     and this node uses the old ones until root accepts the new ones here. Name every new prefix. Ask the operator first: an attacker\n\
     who controls the coordinator can route addresses of the local network into the overlay.\n\n\
     --json   print the accepted prefixes as an object, with a schema version";

/// The parsed command line.
struct Options {
    prefixes: Vec<Prefix>,
    json: bool,
    socket: PathBuf,
}

/// The object that `--json` prints.
#[derive(Serialize)]
struct Accepted {
    schema: u32,
    accepted: Vec<Prefix>,
}

pub(crate) fn run(words: Words) -> Result<(), Fault> {
    let Options { prefixes, json, socket } = parse(words)?;
    let done = Client::open(&socket)?.change(&ApiRequest::AcceptPrefixes { prefixes: prefixes.clone() })?;
    if !done {
        return Err(Fault::failed(
            "the daemon ended before it answered",
            "start it with `taut up`, then run `taut accept` again",
        ));
    }
    match json {
        true => output::print_json(&Accepted { schema: SCHEMA, accepted: prefixes }),
        false => output::print("accepted; `taut status` shows the new addresses"),
    }
}

fn parse(mut words: Words) -> Result<Options, Fault> {
    let mut options = Options { prefixes: Vec::new(), json: false, socket: default_socket() };
    while let Some(word) = words.next()? {
        match word {
            Word::Flag(flag) if flag == "--json" => options.json = true,
            Word::Flag(flag) if flag == "--socket" => options.socket = PathBuf::from(words.value()?),
            Word::Value(text) => {
                let prefix = text.parse().map_err(|error| Fault::usage(format!("`{text}`: {error}")))?;
                options.prefixes.push(prefix);
            }
            other => return Err(unexpected(&other)),
        }
    }
    if options.prefixes.is_empty() {
        return Err(Fault::usage(
            "a prefix is missing; `taut status` names the prefixes that the coordinator announces",
        ));
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    #[test]
    fn every_prefix_must_be_named() {
        let parse = |line: &str| parse(Words::new(line.split_whitespace().map(OsString::from)));
        let Options { prefixes, json, socket } = parse("10.0.0.0/8 --json --socket /s fd00::/48").unwrap();
        assert_eq!(prefixes.iter().map(ToString::to_string).collect::<Vec<_>>(), ["10.0.0.0/8", "fd00::/48"]);
        assert_eq!((json, socket), (true, PathBuf::from("/s")));
        for line in ["", "10.0.0.0", "10.0.0.0/8 --fast"] {
            assert!(matches!(parse(line), Err(Fault::Usage { .. } | Fault::UnknownFlag { .. })), "{line}");
        }
    }
}
