//! Words that every other crate shares.
//!
//! Plain values only: [`Time`], keys, ids, [`Prefix`], [`Entropy`] and the sizes that bound everything else. Nothing here reads a
//! clock, opens a file or draws a random number; whoever needs one of these is given it (law 10).

mod admission;
mod closest;
mod descriptors;
mod encoding;
mod entropy;
mod ids;
mod keys;
mod limits;
mod meter;
mod prefix;
mod rate;
mod time;

pub use admission::{Admission, AdmissionDenied, Bounds, WhenFull};
pub use closest::closest;
pub use descriptors::{Descriptors, Uses};
pub use encoding::{NotBase64, decode_base64, decode_base64url, encode_base64, encode_base64url};
pub use entropy::Entropy;
pub use ids::{LaneId, NodeId, PeerId, ReceiverIndex, RelayId, SessionId};
pub use keys::{BadKey, PresharedKey, PrivateKey, PublicKey};
pub use limits::{DEFAULT_MTU, DEFAULT_PORT, MAX_CANDIDATES, MAX_DATAGRAM, MAX_LANES, MAX_MTU, MAX_PEERS, MIN_MTU};
pub use meter::{KeyedHash, Meter, network, site};
pub use prefix::{BadPrefix, Prefix};
pub use rate::{Bucket, Rate};
pub use time::Time;
