//! The control channel's handshake and records.

use taut_base::PrivateKey;
use taut_noise::ik::{Initiator, Responder};
use taut_noise::{Transport, public_key};

use crate::input::Input;

/// A handshake, then messages, each of which may be altered on the path: an opened record is a sealed one, and no record opens after one that failed.
///
/// The script: two steps for the messages of the handshake, then a message for each step. A step is the change (0: none, 1: a byte altered, 2: cut, 3: replaced
/// by the piece), an offset, a mask and a piece.
pub(crate) fn records(data: &[u8]) {
    let mut input = Input::new(data);
    let Some((mut node, mut coordinator)) = handshake(&mut input) else { return };
    while !input.is_empty() {
        let step = Step::read(&mut input);
        let sealed = coordinator.seal(step.piece);
        let arrived = step.alter(&sealed);
        match node.open(arrived.clone()) {
            Ok(message) => {
                assert!(arrived == sealed && message == step.piece, "the opened record is not the sealed one");
            }
            Err(error) => {
                assert!(arrived != sealed && !error.to_string().is_empty(), "an unaltered record does not open");
                return;
            }
        }
        let answer = node.seal(step.piece);
        assert!(coordinator.open(answer).is_ok_and(|opened| opened == step.piece));
    }
}

fn handshake(input: &mut Input<'_>) -> Option<(Transport, Transport)> {
    let [machine, coordinator, one, other] = [1, 2, 3, 4].map(|byte| PrivateKey::from_bytes([byte; 32]));
    let (initiator, first) = Initiator::start(b"prologue", &machine, &public_key(&coordinator), one).ok()?;
    let arrived = Step::read(input).alter(&first);
    let replying = Responder::read(b"prologue", &coordinator, &arrived);
    assert_eq!(replying.is_ok(), arrived == first, "a handshake message is accepted if and only if it is unaltered");
    let replying = replying.ok()?;
    assert_eq!(replying.initiator(), public_key(&machine));
    let (theirs, second) = replying.reply(&other).ok()?;
    let arrived = Step::read(input).alter(&second);
    let ours = initiator.finish(&arrived);
    assert_eq!(ours.is_ok(), arrived == second, "a handshake message is accepted if and only if it is unaltered");
    Some((ours.ok()?, theirs))
}

struct Step<'a> {
    how: u8,
    place: usize,
    mask: u8,
    piece: &'a [u8],
}

impl<'a> Step<'a> {
    fn read(input: &mut Input<'a>) -> Self {
        Self { how: input.byte() % 4, place: usize::from(input.word()), mask: input.byte(), piece: input.piece() }
    }

    fn alter(&self, sealed: &[u8]) -> Vec<u8> {
        let mut bytes = sealed.to_vec();
        match self.how {
            0 => {}
            1 => {
                let place = self.place % bytes.len();
                bytes[place] ^= self.mask;
            }
            2 => bytes.truncate(self.place),
            _ => bytes = self.piece.to_vec(),
        }
        bytes
    }
}
