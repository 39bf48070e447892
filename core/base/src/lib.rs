//! Types that every other crate shares.
//!
//! Plain values: [`Time`], keys, ids, [`Prefix`], [`Entropy`] and the limits of all other crates. Nothing here reads a clock, opens a file or draws a random
//! number; these are arguments (law 10).

mod admission;
mod atomic;
mod base64;
mod chunked;
mod closest;
#[cfg(test)]
mod counted;
mod descriptors;
mod entropy;
mod ids;
mod internet;
mod iso_time;
mod keys;
mod limits;
mod mark;
mod meter;
mod placement;
mod prefix;
mod printable;
mod qr;
mod rate;
mod sorted;
mod time;
mod toml;

pub use admission::{Admission, AdmissionDenied, Bounds, WhenFull};
pub use atomic::AtomicU64;
pub use base64::{NotBase64, decode_base64, decode_base64url, encode_base64, encode_base64url};
pub use chunked::ChunkedMap;
pub use closest::closest;
pub use descriptors::{Descriptors, Uses};
pub use entropy::Entropy;
pub use ids::{LaneId, NodeId, PeerId, ReceiverIndex, RelayId, SessionId};
pub use internet::is_internet;
pub use iso_time::{format_time, parse_time};
pub use keys::{BadKey, PresharedKey, PrivateKey, PublicKey};
pub use limits::{
    DEFAULT_MTU, DEFAULT_PORT, MAX_CANDIDATES, MAX_DATAGRAM, MAX_LANES, MAX_MTU, MAX_PEERS, MIN_MTU, SAFE_PACKET,
};
pub use mark::{BOTH_MASK, MARK_MASK, REPLY_MARK, SOCKET_MARK};
pub use meter::{KeyedHash, Meter, network, site};
pub use placement::Placement;
pub use prefix::{BadPrefix, Prefix};
pub use printable::is_printable;
pub use qr::qr_lines;
pub use rate::{Bucket, Rate};
pub use sorted::{SortedMap, SortedSet};
pub use time::Time;
pub use toml::{MAX_TOML_ITEMS, TextPlace, TomlEntry, TomlProblem, TomlValue, quote_toml, read_toml};
