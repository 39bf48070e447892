//! Reads the join token from the command line, a file or stdin.

use std::io::Read;
use std::path::Path;
use std::str::FromStr;

use taut_event::open_regular;
use taut_netmap::JoinToken;

use crate::fault::Fault;

/// Limit on the size of a token file, 16 KiB. A token has less than 3 KB, so a larger file is not a token.
const MAX_BYTES: u64 = 16 * 1024;

/// Reads the token from `given` (the token itself, `file:PATH`, or `-` for stdin), and checks that it is complete.
pub(crate) fn read(given: &str) -> Result<String, Fault> {
    let from = |source: &mut dyn Read, name: &str| {
        let mut text = String::new();
        source.take(MAX_BYTES).read_to_string(&mut text).map_err(|error| unreadable(name, &error))?;
        Ok::<String, Fault>(text)
    };
    let text = match given.strip_prefix("file:") {
        Some(path) => {
            let mut file = open_regular(Path::new(path)).map_err(|error| unreadable(path, &error))?;
            from(&mut file, path)?
        }
        None if given == "-" => from(&mut std::io::stdin().lock(), "stdin")?,
        None => String::from(given),
    };
    let text = String::from(text.trim());
    JoinToken::from_str(&text).map_err(|error| Fault::failed(error.to_string(), ""))?;
    Ok(text)
}

fn unreadable(from: &str, error: &std::io::Error) -> Fault {
    let message = format!("the join token cannot be read from {from}: {error}");
    Fault::failed(message, "give the token itself, file:PATH, or - for standard input")
}

#[cfg(test)]
mod tests {
    use super::*;
    use taut_base::PublicKey;

    #[test]
    fn a_token_is_read_from_the_command_line_or_a_file() {
        let token = JoinToken {
            network: [1; 16],
            coordinator: PublicKey([2; 32]),
            urls: vec![String::from("http://10.0.0.1")],
            secret: [3; 32],
        };
        let path = std::env::temp_dir().join(format!("taut-token-{}", std::process::id()));
        std::fs::write(&path, format!("{}\n", token.encode())).unwrap();
        let from_file = read(&format!("file:{}", path.display()));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(from_file.unwrap(), token.encode());
        assert_eq!(read(&token.encode()).unwrap(), token.encode());
        for (given, part) in [
            ("hello", "not a join token"),
            ("taut1-AAAA", "damaged"),
            ("file:/nowhere", "/nowhere"),
            ("file:/dev/zero", "not a regular file"),
        ] {
            match read(given) {
                Err(Fault::Failed(failure)) => assert!(failure.message.contains(part), "{failure}"),
                _ => panic!("{given}"),
            }
        }
    }
}
