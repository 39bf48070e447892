//! Control messages in the kernel's layout: one `cmsghdr`, then numbers.

use std::mem;

/// Returns the bytes of a control message with `payload` bytes, including the padding after it.
const fn space(payload: usize) -> usize {
    // SAFETY: the macro only computes with its argument.
    unsafe { libc::CMSG_SPACE(payload as libc::c_uint) as usize }
}

/// Returns the length field of a control message with `payload` bytes.
const fn length(payload: usize) -> usize {
    // SAFETY: the macro only computes with its argument.
    unsafe { libc::CMSG_LEN(payload as libc::c_uint) as usize }
}

/// `struct in_pktinfo` and `struct in6_pktinfo` (man 7 ip, RFC 3542), in bytes.
const INFO4: usize = size_of::<libc::in_pktinfo>();
const INFO6: usize = size_of::<libc::in6_pktinfo>();

/// Control messages of a message to send: segment size, source address, congestion marks.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct SendControl {
    bytes: [u8; space(2) + space(INFO6) + space(4)],
    /// Bytes in use. The field also gives the type the alignment of a header.
    used: usize,
}

/// Control messages of a received message: segment size, local address, congestion marks.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct ReceiveControl {
    bytes: [u8; space(4) + space(INFO6) + space(4)],
    /// As in [`SendControl`].
    _aligned: [usize; 0],
}

// A header is read and written in place, so it must be aligned.
const _: () = {
    assert!(align_of::<SendControl>() >= align_of::<libc::cmsghdr>());
    assert!(align_of::<ReceiveControl>() >= align_of::<libc::cmsghdr>());
};

impl SendControl {
    /// Returns no control messages.
    pub(crate) fn new() -> Self {
        Self { bytes: [0; _], used: 0 }
    }

    /// Returns the bytes in use.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.used]
    }

    /// Makes the kernel split a message into datagrams of `segment_size` bytes: `UDP_SEGMENT`, 16 bits
    /// (net/ipv4/udp.c, `__udp_cmsg_send`).
    pub(crate) fn segment(&mut self, segment_size: u16) {
        self.push(libc::SOL_UDP, libc::UDP_SEGMENT, &segment_size.to_ne_bytes());
    }

    /// Sets the IPv4 source address: `IP_PKTINFO`, which is interface (0: chosen by the routes), address, and another address
    /// that is not read.
    pub(crate) fn source4(&mut self, address: [u8; 4], interface: u32) {
        let mut info = [0; INFO4];
        info[..4].copy_from_slice(&interface.to_ne_bytes());
        info[4..8].copy_from_slice(&address);
        self.push(libc::IPPROTO_IP, libc::IP_PKTINFO, &info);
    }

    /// Sets the IPv6 source address: `IPV6_PKTINFO`, address and interface.
    pub(crate) fn source6(&mut self, address: [u8; 16], interface: u32) {
        let mut info = [0; INFO6];
        info[..16].copy_from_slice(&address);
        info[16..].copy_from_slice(&interface.to_ne_bytes());
        self.push(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info);
    }

    /// Sets the congestion marks, with DSCP 0: `IP_TOS`, also for IPv4 from an IPv6 socket, or
    /// `IPV6_TCLASS`, an int each (net/ipv4/ip_sockglue.c, `ip_cmsg_send`; net/ipv6/datagram.c).
    pub(crate) fn ecn(&mut self, ecn: u8, ipv6: bool) {
        let (level, kind) =
            if ipv6 { (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) } else { (libc::IPPROTO_IP, libc::IP_TOS) };
        self.push(level, kind, &libc::c_int::from(ecn & 3).to_ne_bytes());
    }

    fn push(&mut self, level: libc::c_int, kind: libc::c_int, payload: &[u8]) {
        // SAFETY: all bytes zero is a valid value of these plain numbers.
        let mut header: libc::cmsghdr = unsafe { mem::zeroed() };
        header.cmsg_len = length(payload.len()) as _;
        header.cmsg_level = level;
        header.cmsg_type = kind;
        let Some(room) = self.bytes.get_mut(self.used..self.used + space(payload.len())) else { return };
        // SAFETY: `room` has more bytes than a header, which needs no alignment this way.
        unsafe { room.as_mut_ptr().cast::<libc::cmsghdr>().write_unaligned(header) };
        room[length(0)..length(payload.len())].copy_from_slice(payload);
        self.used += space(payload.len());
    }
}

/// The content of a [`ReceiveControl`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReceiveInfo {
    /// The size of the datagrams of a run (`UDP_GRO`, an int: net/ipv4/udp.c, `udp_cmsg_recv`).
    pub(crate) segment_size: Option<usize>,
    /// The local address that the message came to, IPv4 mapped into IPv6 where the socket is IPv6, and the interface.
    pub(crate) arrival: Option<Arrival>,
    /// The congestion marks of its IP header: `IP_TOS` is one byte, `IPV6_TCLASS` an int.
    pub(crate) ecn: u8,
}

/// The local address and interface of a received message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    V4([u8; 4], u32),
    V6([u8; 16], u32),
}

impl ReceiveControl {
    /// Bytes of room.
    pub(crate) const ROOM: usize = space(4) + space(INFO6) + space(4);

    /// Returns an empty answer.
    pub(crate) fn empty() -> Self {
        Self { bytes: [0; _], _aligned: [] }
    }

    /// Parses the first `used` bytes. Incomplete or unknown control messages are skipped.
    pub(crate) fn read(&self, used: usize) -> ReceiveInfo {
        let mut info = ReceiveInfo::default();
        let mut rest = &self.bytes[..used.min(self.bytes.len())];
        while rest.len() >= length(0) {
            // SAFETY: `rest` has at least the bytes of a header, which needs no alignment this way and is plain numbers.
            let header = unsafe { rest.as_ptr().cast::<libc::cmsghdr>().read_unaligned() };
            // Its type is not the same with every libc.
            let end: usize = header.cmsg_len as _;
            let Some(payload) = rest.get(length(0)..end) else { break };
            info.take(header.cmsg_level, header.cmsg_type, payload);
            rest = rest.get(space(end - length(0))..).unwrap_or_default();
        }
        info
    }
}

impl ReceiveInfo {
    fn take(&mut self, level: libc::c_int, kind: libc::c_int, payload: &[u8]) {
        match (level, kind) {
            (libc::SOL_UDP, libc::UDP_GRO) => {
                let size = payload.first_chunk().map(|bytes| libc::c_int::from_ne_bytes(*bytes));
                self.segment_size = size.and_then(|size| usize::try_from(size).ok()).filter(|size| *size > 0);
            }
            (libc::IPPROTO_IP, libc::IP_TOS) => self.ecn = payload.first().map_or(0, |tos| tos & 3),
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                let class = payload.first_chunk().map_or(0, |bytes| libc::c_int::from_ne_bytes(*bytes));
                self.ecn = class.to_le_bytes()[0] & 3;
            }
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                // The second field is the address to answer from, even if the datagram was a broadcast.
                if let Some((interface, address)) = payload.first_chunk().zip(payload.get(4..8)).and_then(split) {
                    self.arrival = Some(Arrival::V4(address, interface));
                }
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                let address = payload.first_chunk();
                if let Some((interface, address)) = payload.get(16..).and_then(<[u8]>::first_chunk).zip(address) {
                    self.arrival = Some(Arrival::V6(*address, u32::from_ne_bytes(*interface)));
                }
            }
            _ => {}
        }
    }
}

fn split((interface, address): (&[u8; 4], &[u8])) -> Option<(u32, [u8; 4])> {
    Some((u32::from_ne_bytes(*interface), address.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::{Arrival, INFO4, INFO6, ReceiveControl, ReceiveInfo, SendControl, length, space};

    /// What the kernel would write.
    fn answer(parts: &[(i32, i32, &[u8])]) -> (ReceiveControl, usize) {
        let (mut answer, mut used) = (ReceiveControl::empty(), 0);
        for (level, kind, payload) in parts {
            let mut control = SendControl::new();
            control.push(*level, *kind, payload);
            answer.bytes[used..used + control.used].copy_from_slice(control.bytes());
            used += control.used;
        }
        (answer, used)
    }

    #[test]
    fn the_layout_is_the_one_of_man_3_cmsg() {
        let mut control = SendControl::new();
        assert!(control.bytes().is_empty());
        control.segment(1_452);
        control.source6([7; 16], 3);
        assert_eq!(control.bytes().len(), space(2) + space(INFO6));
        assert_eq!(control.bytes()[length(0)..length(2)], 1_452_u16.to_ne_bytes());
        assert_eq!(control.bytes()[space(2) + length(0)..][..16], [7; 16]);
        assert_eq!(control.bytes()[space(2) + length(16)..][..4], 3_u32.to_ne_bytes());
        let mut control = SendControl::new();
        control.source4([1, 2, 3, 4], 5);
        assert_eq!(control.bytes().len(), space(INFO4));
        assert_eq!(control.bytes()[length(0)..length(8)], [5_u32.to_ne_bytes(), [1, 2, 3, 4]].concat());
    }

    #[test]
    fn only_a_whole_gro_answer_counts() {
        let run = |size: i32| answer(&[(libc::SOL_UDP, libc::UDP_GRO, &size.to_ne_bytes())]);
        let (answer, used) = run(1_452);
        assert_eq!(answer.read(used), ReceiveInfo { segment_size: Some(1_452), arrival: None, ecn: 0 });
        assert_eq!(answer.read(length(4)).segment_size, Some(1_452), "the room behind it is not needed");
        for short in 0..length(4) {
            assert_eq!(answer.read(short), ReceiveInfo::default());
        }
        for senseless in [0, -1] {
            let (answer, used) = run(senseless);
            assert_eq!(answer.read(used), ReceiveInfo::default());
        }
        assert_eq!(
            ReceiveControl::empty().read(ReceiveControl::ROOM),
            ReceiveInfo::default(),
            "a header of length 0 ends it"
        );
    }

    #[test]
    fn both_answers_are_found_in_any_order() {
        let size = 1_452_i32.to_ne_bytes();
        let info = [[9; 16].as_slice(), &4_u32.to_ne_bytes()].concat();
        let gro = (libc::SOL_UDP, libc::UDP_GRO, size.as_slice());
        let info = (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, info.as_slice());
        let all = ReceiveInfo { segment_size: Some(1_452), arrival: Some(Arrival::V6([9; 16], 4)), ecn: 0 };
        for parts in [[gro, info], [info, gro]] {
            let (answer, used) = answer(&parts);
            assert_eq!(answer.read(used), all);
        }
    }

    #[test]
    fn an_ipv4_socket_says_it_in_its_own_way() {
        let info = [2_u32.to_ne_bytes(), [192, 0, 2, 1], [255; 4]].concat();
        let (answer, used) = answer(&[(libc::IPPROTO_IP, libc::IP_PKTINFO, &info)]);
        assert_eq!(answer.read(used).arrival, Some(Arrival::V4([192, 0, 2, 1], 2)));
        let (answer, used) = self::answer(&[(libc::IPPROTO_IP, libc::IP_PKTINFO, &info[..7])]);
        assert_eq!(answer.read(used), ReceiveInfo::default());
    }
}
