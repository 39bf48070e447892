//! Random mutations: replay's substitute for a coverage-guided fuzzer.

use taut_base::Entropy;
use taut_testkit::Seeded;

/// Values at which lengths and counters tend to break.
const EDGES: [u8; 9] = [0x00, 0x01, 0x0f, 0x10, 0x7f, 0x80, 0xfe, 0xff, 0x40];

/// Returns `count` mutations of one file of a corpus. The same `run` gives the same mutations.
pub fn mutations<'a>(
    seed: &'a [u8],
    others: &'a [Vec<u8>],
    run: u64,
    count: u64,
) -> impl Iterator<Item = Vec<u8>> + 'a {
    let mut rng = Seeded::new(fnv(seed) ^ run);
    (0..count).map(move |_| {
        let other = others.get(below(others.len(), &mut rng)).map_or(seed, Vec::as_slice);
        let mut input = mutated(seed, other, &mut rng);
        input.truncate(crate::MAX_INPUT);
        input
    })
}

/// Returns the 64-bit FNV-1a hash of some bytes.
pub fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Returns `seed` with one to four changes; pieces that are spliced in come from `other`.
fn mutated(seed: &[u8], other: &[u8], rng: &mut Seeded) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..=rng.below(4) {
        change(&mut bytes, other, rng);
    }
    bytes
}

fn change(bytes: &mut Vec<u8>, other: &[u8], rng: &mut Seeded) {
    let random = u8::try_from(rng.below(256)).unwrap_or(0);
    let place = below(bytes.len(), rng);
    let length = below(bytes.len() - place, rng).min(64);
    match rng.below(10) {
        0 => bytes.truncate(place),
        1 => bytes.insert(place, random),
        2 => drop(bytes.drain(place..place + length)),
        3 => {
            let copy = bytes[place..place + length].to_vec();
            let to = below(bytes.len(), rng);
            bytes.splice(to..to, copy);
        }
        4 => {
            let from = below(other.len(), rng);
            let foreign = other[from..].iter().take(64).copied();
            bytes.splice(place..place, foreign);
        }
        5 => set(bytes, place, EDGES[below(EDGES.len(), rng)]),
        6 => set(bytes, place, random),
        // Two bytes at once: most length fields have two.
        7 => {
            set(bytes, place, EDGES[below(EDGES.len(), rng)]);
            set(bytes, place + 1, EDGES[below(EDGES.len(), rng)]);
        }
        8 => {
            let old = bytes.get(place).copied().unwrap_or(0);
            set(bytes, place, old.wrapping_add(random % 5).wrapping_sub(2));
        }
        _ => {
            let old = bytes.get(place).copied().unwrap_or(0);
            set(bytes, place, old ^ (1 << (random % 8)));
        }
    }
}

fn set(bytes: &mut [u8], place: usize, value: u8) {
    if let Some(byte) = bytes.get_mut(place) {
        *byte = value;
    }
}

fn below(bound: usize, rng: &mut Seeded) -> usize {
    rng.below(u32::try_from(bound).unwrap_or(u32::MAX)) as usize
}
