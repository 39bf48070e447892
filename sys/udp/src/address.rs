//! Socket addresses as the kernel writes them.

use std::mem;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// Room for an IPv4 or IPv6 socket address, much smaller than `sockaddr_storage`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) union Name {
    family: libc::sa_family_t,
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

impl Name {
    /// Bytes of this type.
    pub(crate) const ROOM: libc::socklen_t = size_of::<Self>() as libc::socklen_t;

    /// Returns no address: family `AF_UNSPEC`.
    pub(crate) fn empty() -> Self {
        // SAFETY: all bytes zero is a valid value of each variant, which are plain numbers.
        unsafe { mem::zeroed() }
    }

    /// Returns the kernel's form and its length. An IPv6 socket takes IPv4 destinations unchanged.
    pub(crate) fn encode(address: SocketAddr) -> (Self, libc::socklen_t) {
        match address {
            SocketAddr::V4(address) => (Self { v4: encode_v4(address) }, length_of::<libc::sockaddr_in>()),
            SocketAddr::V6(address) => (Self { v6: encode_v6(address) }, length_of::<libc::sockaddr_in6>()),
        }
    }

    /// Returns the address, with mapped IPv6 as IPv4; `None` for any other family.
    pub(crate) fn decode(&self) -> Option<SocketAddr> {
        // SAFETY: every value of this type was made whole (`empty` or `encode`), so all bytes are initialised, and
        // every variant is plain numbers that allow any bytes; the family stands first in all of them.
        unsafe {
            match libc::c_int::from(self.family) {
                libc::AF_INET => Some(decode_v4(&self.v4)),
                libc::AF_INET6 => Some(decode_v6(&self.v6)),
                _ => None,
            }
        }
    }
}

const fn length_of<T>() -> libc::socklen_t {
    size_of::<T>() as libc::socklen_t
}

fn encode_v4(address: SocketAddrV4) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: address.port().to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address.ip().octets()) },
        sin_zero: [0; 8],
    }
}

fn encode_v6(address: SocketAddrV6) -> libc::sockaddr_in6 {
    libc::sockaddr_in6 {
        sin6_family: libc::AF_INET6 as libc::sa_family_t,
        sin6_port: address.port().to_be(),
        sin6_flowinfo: address.flowinfo(),
        sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
        sin6_scope_id: address.scope_id(),
    }
}

fn decode_v4(name: &libc::sockaddr_in) -> SocketAddr {
    let ip = Ipv4Addr::from(name.sin_addr.s_addr.to_ne_bytes());
    SocketAddr::from((ip, u16::from_be(name.sin_port)))
}

fn decode_v6(name: &libc::sockaddr_in6) -> SocketAddr {
    let ip = Ipv6Addr::from(name.sin6_addr.s6_addr);
    let port = u16::from_be(name.sin6_port);
    match ip.to_ipv4_mapped() {
        Some(ip) => SocketAddr::from((ip, port)),
        // The flow label is left out: it is no part of the endpoint, and would make equal endpoints differ.
        None => SocketAddrV6::new(ip, port, 0, name.sin6_scope_id).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::Name;
    use std::net::SocketAddr;

    fn round_trip(text: &str) -> Option<String> {
        Name::encode(text.parse().unwrap()).0.decode().map(|address: SocketAddr| address.to_string())
    }

    #[test]
    fn addresses_survive_and_mapped_ones_become_ipv4() {
        for same in ["192.0.2.1:51820", "[2001:db8::1]:1", "[fe80::1%7]:65535", "0.0.0.0:0"] {
            assert_eq!(round_trip(same).as_deref(), Some(same));
        }
        assert_eq!(round_trip("[::ffff:192.0.2.1]:9").as_deref(), Some("192.0.2.1:9"));
        assert_eq!(Name::empty().decode(), None);
    }
}
