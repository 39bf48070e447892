//! Questions of this node itself, for the addresses of a name, and the answers to them.

use std::net::IpAddr;

use crate::name::{Name, skip};
use crate::query::HEADER;
use crate::split::is_answer;

/// Types of records with addresses, A and AAAA (RFC 1035 section 3.2.2, RFC 3596).
const A: u16 = 1;
const AAAA: u16 = 28;
/// The class of the Internet (RFC 1035 section 3.2.4).
const IN: u16 = 1;

/// Most records of an answer that are looked at, 64: an answer over UDP has no more.
const MOST_RECORDS: usize = 64;

/// Returns a question for the IPv4 or the IPv6 addresses of a name; `None` if the text is no domain name. `id` should be random: with the port it is what an answer has to know.
pub fn question(name: &str, ipv4: bool, id: u16) -> Option<Vec<u8>> {
    let name = Name::from_text(name.strip_suffix('.').unwrap_or(name))?;
    let mut message = id.to_be_bytes().to_vec();
    // RD, and one question.
    message.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    message.extend_from_slice(name.bytes());
    message.extend(if ipv4 { A } else { AAAA }.to_be_bytes());
    message.extend(IN.to_be_bytes());
    Some(message)
}

/// Returns the addresses in the answer to a question of [`question`]; none if the message is no answer to it. The names of the records are not looked at, because an alias leads to others; a server that lies
/// about addresses may as well lie about aliases.
pub fn addresses(question: &[u8], answer: &[u8]) -> Vec<IpAddr> {
    if is_answer(question, answer) { records(question.len(), answer).unwrap_or_default() } else { Vec::new() }
}

fn records(mut at: usize, answer: &[u8]) -> Option<Vec<IpAddr>> {
    let number = |at: usize| answer.get(at..at + 2)?.first_chunk().copied().map(u16::from_be_bytes);
    // The number of answers is the fourth field of the header.
    let count = usize::from(number(HEADER - 6)?).min(MOST_RECORDS);
    let mut found = Vec::new();
    for _ in 0..count {
        // Type, class, time to live, length.
        let Some(fixed) = skip(answer, at) else { break };
        let (Some(kind), Some(class), Some(length)) = (number(fixed), number(fixed + 2), number(fixed + 8)) else {
            break;
        };
        let Some(data) = answer.get(fixed + 10..fixed + 10 + usize::from(length)) else { break };
        at = fixed + 10 + data.len();
        if class != IN {
            continue;
        }
        found.extend(match kind {
            A => <[u8; 4]>::try_from(data).ok().map(IpAddr::from),
            AAAA => <[u8; 16]>::try_from(data).ok().map(IpAddr::from),
            _ => None,
        });
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns an answer with these records: type and data.
    fn answered(question: &[u8], records: &[(u16, &[u8])]) -> Vec<u8> {
        let mut answer = question.to_vec();
        answer[2] |= 0x80;
        answer[6..8].copy_from_slice(&u16::try_from(records.len()).unwrap().to_be_bytes());
        for (kind, data) in records {
            answer.extend([0xc0, 12]);
            answer.extend(kind.to_be_bytes());
            answer.extend([0, 1, 0, 0, 0, 60]);
            answer.extend(u16::try_from(data.len()).unwrap().to_be_bytes());
            answer.extend_from_slice(data);
        }
        answer
    }

    #[test]
    fn addresses_are_found_behind_aliases() {
        let asked = question("coord.example.", true, 7).unwrap();
        let answer =
            answered(&asked, &[(5, &[1, b'a', 0xc0, 12]), (A, &[192, 0, 2, 7]), (AAAA, &[0; 3]), (A, &[192, 0, 2, 8])]);
        assert_eq!(addresses(&asked, &answer), ["192.0.2.7", "192.0.2.8"].map(|text| text.parse::<IpAddr>().unwrap()));
        let other = question("coord.example", true, 8).unwrap();
        assert_eq!(addresses(&other, &answer), [] as [IpAddr; 0], "another identifier");
        assert_eq!(addresses(&asked, &asked), [] as [IpAddr; 0], "the question itself is no answer");
        let six = question("coord.example", false, 7).unwrap();
        let answer = answered(&six, &[(AAAA, &[0x20; 16])]);
        assert_eq!(addresses(&six, &answer).len(), 1);
        assert_eq!(question("", true, 7), None);
    }

    proptest! {
        #[test]
        fn fault_h2_any_answer_is_read_without_harm(tail in proptest::collection::vec(prop_oneof![0..5_u8, any::<u8>()], 0..200), count in 0..9_u8) {
            let asked = question("a.example", true, 7).unwrap();
            let mut answer = answered(&asked, &[]);
            answer[7] = count;
            answer.extend(tail);
            prop_assert!(addresses(&asked, &answer).len() <= usize::from(count));
        }
    }
}
