//! Division of a server's file descriptors by use.

/// Descriptors by use. Their sum is what the process may open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptors {
    /// Unauthenticated connections.
    pub unauthenticated: usize,
    /// Control channels of members.
    pub channels: usize,
    /// WebSockets of clients that are bound to the relay.
    pub streams: usize,
    /// All other uses: database, log, listeners, UDP sockets, metrics, and connections that are being closed.
    pub rest: usize,
}

/// Uses of descriptors by a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uses {
    /// The program serves control channels.
    pub channels: bool,
    /// The program serves relay clients by WebSocket.
    pub streams: bool,
}

/// Smallest and largest number of descriptors for all other uses. A coordinator with a relay has 35 open on two cores without connections, and 4 more for each
/// additional core.
const REST: (usize, usize) = (64, 256);

/// Limit on unauthenticated connections, 1,024. Each can occupy some 40 KiB with an unfinished header, so all of them take 40 MiB at most.
const MOST_UNAUTHENTICATED: usize = 1_024;

/// Limit on WebSockets of bound clients, 4,096. Each can have 256 KiB queued.
const MOST_STREAMS: usize = 4_096;

/// Limit on control channels, 65,536: the limit on the members of a network (`MAX_PEERS`).
const MOST_CHANNELS: usize = 65_536;

impl Descriptors {
    /// Divides `files` descriptors. An eighth is for all other uses, from 64 to 256 but at most half of all. A quarter of the remainder is for unauthenticated
    /// connections, so that members have three times as many; a program with both channels and streams halves the members' share between them.
    pub fn divide(files: u64, uses: Uses) -> Self {
        let files = usize::try_from(files).unwrap_or(usize::MAX);
        let rest = (files / 8).clamp(REST.0, REST.1).min(files / 2);
        let left = files - rest;
        let unauthenticated = (left / 4).min(MOST_UNAUTHENTICATED);
        let members = left - unauthenticated;
        let streams = match uses {
            Uses { streams: false, .. } => 0,
            Uses { channels: true, .. } => (members / 2).min(MOST_STREAMS),
            Uses { channels: false, .. } => members.min(MOST_STREAMS),
        };
        let channels = if uses.channels { (members - streams).min(MOST_CHANNELS) } else { 0 };
        Self { unauthenticated, channels, streams, rest: files - unauthenticated - channels - streams }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: Uses = Uses { channels: true, streams: true };

    fn divided(files: u64, uses: Uses) -> (usize, usize, usize, usize) {
        let Descriptors { unauthenticated, channels, streams, rest } = Descriptors::divide(files, uses);
        (unauthenticated, channels, streams, rest)
    }

    #[test]
    fn fault_p6_the_usual_limits_are_divided() {
        assert_eq!(divided(1_024, BOTH), (224, 336, 336, 128));
        assert_eq!(divided(20_000, BOTH), (1_024, 14_624, 4_096, 256));
        assert_eq!(divided(1_024, Uses { streams: false, ..BOTH }), (224, 672, 0, 128));
        assert_eq!(divided(1_024, Uses { channels: false, ..BOTH }), (224, 0, 672, 128));
        assert_eq!(divided(1 << 30, BOTH).1, MOST_CHANNELS);
    }

    #[test]
    fn fault_p6_no_limit_is_overdrawn_and_members_have_more_than_strangers() {
        for files in (0..5_000).chain([65_536, 1 << 20, u64::MAX]) {
            for uses in [BOTH, Uses { streams: false, ..BOTH }, Uses { channels: false, ..BOTH }] {
                let (unauthenticated, channels, streams, rest) = divided(files, uses);
                // A 32-bit processor has no numbers for more.
                let whole = usize::try_from(files).unwrap_or(usize::MAX);
                assert_eq!(unauthenticated + channels + streams + rest, whole);
                assert!(channels + streams >= unauthenticated && (rest >= REST.0 || files < 2 * REST.0 as u64));
                assert!(files < 64 || (unauthenticated >= 8 && channels + streams >= 24), "{files}");
            }
        }
    }
}
