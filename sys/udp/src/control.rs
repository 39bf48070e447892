//! The two control messages used here, laid out as the kernel reads and writes them: one `cmsghdr`, one number.

use std::mem;

/// `UDP_SEGMENT` with its 16-bit segment size (net/ipv4/udp.c, `__udp_cmsg_send`).
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct SegmentControl {
    header: libc::cmsghdr,
    segment_size: u16,
    _padding: [u8; size_of::<usize>() - size_of::<u16>()],
}

/// `UDP_GRO` with its segment size, an int (net/ipv4/udp.c, `udp_cmsg_recv`).
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct SegmentAnswer {
    header: libc::cmsghdr,
    segment_size: libc::c_int,
    _padding: [u8; size_of::<usize>() - size_of::<libc::c_int>()],
}

// The layout is the one that CMSG_DATA and CMSG_SPACE (man 3 cmsg) would give.
// SAFETY: both macros only compute with their argument.
const _: () = unsafe {
    assert!(size_of::<SegmentControl>() == libc::CMSG_SPACE(2) as usize);
    assert!(size_of::<SegmentAnswer>() == libc::CMSG_SPACE(4) as usize);
    assert!(mem::offset_of!(SegmentControl, segment_size) == libc::CMSG_LEN(0) as usize);
    assert!(mem::offset_of!(SegmentAnswer, segment_size) == libc::CMSG_LEN(0) as usize);
};

impl SegmentControl {
    /// Asks the kernel to cut a message into datagrams of `segment_size` bytes.
    pub(crate) fn new(segment_size: u16) -> Self {
        // SAFETY: all bytes zero is a valid value of these plain numbers.
        let mut control: Self = unsafe { mem::zeroed() };
        // SAFETY: the macro only computes with its argument.
        control.header.cmsg_len = unsafe { libc::CMSG_LEN(2) } as _;
        control.header.cmsg_level = libc::SOL_UDP;
        control.header.cmsg_type = libc::UDP_SEGMENT;
        control.segment_size = segment_size;
        control
    }
}

impl SegmentAnswer {
    /// Room for an answer.
    pub(crate) fn empty() -> Self {
        // SAFETY: all bytes zero is a valid value of these plain numbers.
        unsafe { mem::zeroed() }
    }

    /// The size of the datagrams that a run consists of, if the kernel wrote one.
    pub(crate) fn segment_size(&self) -> Option<usize> {
        // SAFETY: the macro only computes with its argument.
        let length = unsafe { libc::CMSG_LEN(4) } as _;
        let ours = self.header.cmsg_len >= length
            && self.header.cmsg_level == libc::SOL_UDP
            && self.header.cmsg_type == libc::UDP_GRO;
        if !ours {
            return None;
        }
        usize::try_from(self.segment_size).ok().filter(|size| *size > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::SegmentAnswer;

    #[test]
    fn only_a_whole_gro_answer_counts() {
        let mut answer = SegmentAnswer::empty();
        assert_eq!(answer.segment_size(), None);
        answer.header.cmsg_len = (size_of::<libc::cmsghdr>() + 4) as _;
        answer.header.cmsg_level = libc::SOL_UDP;
        answer.header.cmsg_type = libc::UDP_GRO;
        answer.segment_size = 1_452;
        assert_eq!(answer.segment_size(), Some(1_452));
        for senseless in [0, -1] {
            answer.segment_size = senseless;
            assert_eq!(answer.segment_size(), None);
        }
        answer.segment_size = 1_452;
        answer.header.cmsg_len -= 1;
        assert_eq!(answer.segment_size(), None);
    }
}
