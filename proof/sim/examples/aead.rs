//! A benchmark of the cipher libraries for `make bench-aead`: nanoseconds per packet, the minimum of many runs, for each cipher at the lengths of a small
//! packet, of the usual MTU and of a jumbo frame. "From another buffer" includes the copy, which some libraries avoid.
#![expect(clippy::unwrap_used, reason = "a benchmark may stop at the first surprise")]

use std::hint::black_box;
use std::time::Instant;

use taut_noise::{Aead, Aegis, AwsLc, Cipher, NONCE, Ring, TAG};

const LENGTHS: [usize; 3] = [64, 1_420, 8_900];
/// Packets per run, 4,000: a few milliseconds, shorter than a time slice of the scheduler.
const ROUNDS: u64 = 4_000;
/// Runs per library, 40. The libraries take turns, so a slow moment of the machine affects both.
const RUNS: usize = 40;

fn main() {
    println!("| cipher | bytes | library | seal in place, ns | seal from another buffer, ns | open in place, ns |");
    println!("|---|---|---|---|---|---|");
    let rows = [
        ("AES-256-GCM", Cipher::Aes256Gcm, "ring", run::<Ring> as Run),
        ("AES-256-GCM", Cipher::Aes256Gcm, "aws-lc-rs", run::<AwsLc>),
        ("ChaCha20-Poly1305", Cipher::ChaCha20Poly1305, "ring", run::<Ring>),
        ("ChaCha20-Poly1305", Cipher::ChaCha20Poly1305, "aws-lc-rs", run::<AwsLc>),
        ("AEGIS-256X4", Cipher::Aegis256X4, "taut-aegis", run::<Aegis>),
    ];
    for length in LENGTHS {
        let mut least = [[f64::MAX; 3]; 5];
        for _ in 0..RUNS {
            for (least, (_, cipher, _, run)) in least.iter_mut().zip(rows) {
                let now = run(cipher, length);
                *least = std::array::from_fn(|place| least[place].min(now[place]));
            }
        }
        for ((name, _, library, _), [place, other, open]) in rows.iter().zip(least) {
            println!("| {name} | {length} | {library} | {place:.0} | {other:.0} | {open:.0} |");
        }
    }
}

/// [`run`] of one library.
type Run = fn(Cipher, usize) -> [f64; 3];

/// Measures one run of each operation.
fn run<A: Aead>(cipher: Cipher, length: usize) -> [f64; 3] {
    let key = A::new(cipher, &[7; 32]);
    let (plain, mut sealed) = (vec![0x5a; length], vec![0; length + TAG]);
    let in_place = each(|count| {
        black_box(key.seal_in_place(nonce(count), &[], black_box(&mut sealed[..length])));
    });
    let from_another = each(|count| key.seal(nonce(count), &[], black_box(&plain), black_box(&mut sealed)));
    // Opening destroys its input, so each round opens a copy. The time of the copies is subtracted.
    key.seal(nonce(0), &[], &plain, &mut sealed);
    let mut copy = sealed.clone();
    let copies = each(|_| black_box(&mut copy).copy_from_slice(black_box(&sealed)));
    let opens = each(|_| {
        copy.copy_from_slice(&sealed);
        key.open_in_place(nonce(0), &[], black_box(&mut copy)).unwrap();
    });
    [in_place, from_another, opens - copies]
}

/// Returns the nanoseconds per call of `work`.
fn each(mut work: impl FnMut(u64)) -> f64 {
    let start = Instant::now();
    (0..ROUNDS).for_each(&mut work);
    start.elapsed().as_secs_f64() * 1e9 / ROUNDS as f64
}

fn nonce(counter: u64) -> [u8; NONCE] {
    let mut bytes = [0; NONCE];
    bytes[4..].copy_from_slice(&counter.to_le_bytes());
    bytes
}
