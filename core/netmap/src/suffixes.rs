//! Public suffixes: domains below which anybody registers names, such as `co.uk`.

/// The rules of the Public Suffix List (MPL 2.0, <https://publicsuffix.org>) with two or more labels: sorted hashes of 3 bytes, big-endian, which `tools/suffixes.py` makes. Hashes
/// instead of names: 23 kB instead of 110 kB in the node's program, for one needless question in 700 domains.
static TABLE: &[u8] = include_bytes!("suffixes.bin");

/// Bytes of a hash.
const HASH: usize = 3;

/// The list's exceptions (`!www.ck`), in full: a domain whose hash is that of an exception would be used without a question.
const EXCEPTIONS: [&str; 8] = [
    "city.kawasaki.jp",
    "city.kitakyushu.jp",
    "city.kobe.jp",
    "city.nagoya.jp",
    "city.sapporo.jp",
    "city.sendai.jp",
    "city.yokohama.jp",
    "www.ck",
];

/// Returns true if a domain of two or more labels, in lower case, is a public suffix.
pub(crate) fn is_public_suffix(domain: &str) -> bool {
    let Some((_, parent)) = domain.split_once('.') else { return false };
    // The rule `*.sch.uk` makes a suffix of `sch.uk` itself, too: its subdomains have different owners. The exception `!www.ck` removes `www.ck` from those of the rule `*.ck`.
    is_rule(["", domain]) || is_rule(["*.", domain]) || (is_rule(["*.", parent]) && !EXCEPTIONS.contains(&domain))
}

/// Returns true if the list has this rule.
fn is_rule(parts: [&str; 2]) -> bool {
    let wanted = hash(parts);
    let (rules, _) = TABLE.as_chunks::<HASH>();
    rules.binary_search(&wanted).is_ok()
}

/// Returns the lowest 24 bits of FNV-1a with 64 bits.
fn hash(parts: [&str; 2]) -> [u8; HASH] {
    let bytes = parts.into_iter().flat_map(str::bytes);
    let value =
        bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let [.., a, b, c] = value.to_be_bytes();
    [a, b, c]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_e17_public_suffixes_are_known() {
        for suffix in [
            "co.uk",
            "sch.uk",
            "compute.amazonaws.com",
            "com.au",
            "github.io",
            "x.ck",
            "foo.kawasaki.jp",
            "s3.amazonaws.com",
            "duckdns.org",
            "me.pg",
        ] {
            assert!(is_public_suffix(suffix), "{suffix}");
        }
        for domain in ["corp.example", "example.co.uk", "www.ck", "city.kawasaki.jp", "home.duckdns.org", "home.arpa"] {
            assert!(!is_public_suffix(domain), "{domain}");
        }
        let (rules, rest) = TABLE.as_chunks::<HASH>();
        assert!(rules.is_sorted() && rest.is_empty() && rules.len() > 7_000);
    }
}
