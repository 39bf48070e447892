//! Printing of replies.

use std::fmt::Write;
use std::net::SocketAddr;

use taut_base::PresharedKey;
use zeroize::Zeroizing;

use super::{Errno, Interface, InterfacePeer, Reply};

impl Interface<'_> {
    /// Returns the reply to [`Request::Get`](super::Request::Get).
    pub fn print(&self) -> Reply {
        // The capacity is sufficient from the start, because a string that reallocates would leave copies of the keys in memory.
        let room: usize = self.peers.iter().map(|peer| 512 + 64 * peer.allowed.len()).sum();
        let mut text = Zeroizing::new(String::with_capacity(256 + room));
        if let Some(key) = self.private_key {
            hex_line(&mut text, "private_key", key.expose());
        }
        if self.listen_port != 0 {
            line(&mut text, "listen_port", self.listen_port);
        }
        if self.fwmark != 0 {
            line(&mut text, "fwmark", self.fwmark);
        }
        for peer in &self.peers {
            peer.print(&mut text);
        }
        text.push_str("errno=0\n\n");
        text
    }
}

impl InterfacePeer<'_> {
    fn print(&self, text: &mut String) {
        hex_line(text, "public_key", self.key.as_bytes());
        if self.preshared.expose() != PresharedKey::NONE.expose() {
            hex_line(text, "preshared_key", self.preshared.expose());
        }
        line(text, "protocol_version", 1);
        match (self.endpoint, &self.zone) {
            (Some(SocketAddr::V6(endpoint)), Some(zone)) if endpoint.scope_id() != 0 => {
                line(text, "endpoint", format_args!("[{}%{zone}]:{}", endpoint.ip(), endpoint.port()));
            }
            (Some(endpoint), _) => line(text, "endpoint", endpoint),
            (None, _) => {}
        }
        line(text, "last_handshake_time_sec", self.last_handshake.as_secs());
        line(text, "last_handshake_time_nsec", self.last_handshake.subsec_nanos());
        line(text, "tx_bytes", self.sent);
        line(text, "rx_bytes", self.received);
        line(text, "persistent_keepalive_interval", self.keepalive.map_or(0, |interval| interval.as_secs()));
        for prefix in &self.allowed {
            line(text, "allowed_ip", prefix);
        }
    }
}

impl Errno {
    /// Returns the reply to a failed request or to a change. The number is negative, as in the kernel's replies: `wg` inverts the sign.
    pub fn print(result: Result<(), Self>) -> Reply {
        Zeroizing::new(format!("errno={}\n\n", result.map_or_else(|errno| -i32::from(errno as u8), |()| 0)))
    }
}

fn line(text: &mut String, key: &str, value: impl std::fmt::Display) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{key}={value}");
}

fn hex_line(text: &mut String, key: &str, bytes: &[u8; 32]) {
    text.push_str(key);
    text.push('=');
    for nibble in bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]) {
        text.push(char::from_digit(nibble.into(), 16).unwrap_or('0'));
    }
    text.push('\n');
}
