use super::*;

#[test]
fn lengths_have_one_form_and_every_prefix_of_a_header_is_partial() {
    for (bytes, length) in [
        (&[0x82, 0][..], 0),
        (&[0x82, 125], 125),
        (&[0x82, 126, 0, 126], 126),
        (&[0x82, 126, 0xff, 0xff], 65_535),
        (&[0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0], 65_536),
        (&[0x82, 127, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], u64::MAX),
    ] {
        let header = FrameHeader { is_final: true, opcode: Opcode::Binary, length };
        assert_eq!(FrameHeader::read_from_server(bytes), Ok(Some((header, bytes.len()))));
        for cut in 0..bytes.len() {
            assert_eq!(FrameHeader::read_from_server(&bytes[..cut]), Ok(None), "{cut} bytes of {bytes:?}");
        }
    }
    for bytes in [&[0x82, 126, 0, 125][..], &[0x82, 127, 0, 0, 0, 0, 0, 0, 0xff, 0xff]] {
        assert_eq!(FrameHeader::read_from_server(bytes), Err(BadFrame::LongForm));
    }
}

#[test]
fn frames_that_no_server_may_send_are_refused() {
    for (bytes, why) in [
        ([0xc2, 0], BadFrame::Reserved),
        ([0xa2, 0], BadFrame::Reserved),
        ([0x92, 0], BadFrame::Reserved),
        ([0x83, 0], BadFrame::UnknownOpcode),
        ([0x8b, 0], BadFrame::UnknownOpcode),
        ([0x82, 0x80], BadFrame::Masked),
        ([0x09, 0], BadFrame::ControlInParts),
        ([0x89, 126], BadFrame::LongControl),
        ([0x88, 127], BadFrame::LongControl),
    ] {
        assert_eq!(FrameHeader::read_from_server(&bytes), Err(why), "{bytes:x?}");
    }
    let longest = FrameHeader { is_final: true, opcode: Opcode::Ping, length: 125 };
    assert_eq!(FrameHeader::read_from_server(&[0x89, 125]), Ok(Some((longest, 2))));
    let first = FrameHeader { is_final: false, opcode: Opcode::Text, length: 1 };
    assert_eq!(FrameHeader::read_from_server(&[0x01, 1]), Ok(Some((first, 2))));
}

#[test]
fn headers_of_a_client_have_the_shortest_length_and_the_mask() {
    for (length, expected) in [
        (0, &[0x82, 0x80, 1, 2, 3, 4][..]),
        (125, &[0x82, 0x80 | 125, 1, 2, 3, 4]),
        (126, &[0x82, 0x80 | 126, 0, 126, 1, 2, 3, 4]),
        (65_535, &[0x82, 0x80 | 126, 0xff, 0xff, 1, 2, 3, 4]),
        (65_536, &[0x82, 0x80 | 127, 0, 0, 0, 0, 0, 1, 0, 0, 1, 2, 3, 4]),
    ] {
        let (header, end) = client_header(Opcode::Binary, length, [1, 2, 3, 4]);
        assert_eq!(&header[..end], expected, "{length}");
    }
    assert_eq!(client_header(Opcode::Pong, 0, [0; 4]).0[..2], [0x8a, 0x80]);
}

#[test]
fn a_mask_repeats_every_four_bytes_and_is_its_own_inverse() {
    for length in 0..70_u8 {
        let plain: Vec<u8> = (0..length).collect();
        let mut masked = plain.clone();
        apply_mask(&mut masked, [0x11, 0x22, 0x44, 0x88]);
        let expected: Vec<u8> = (0..length).map(|at| at ^ [0x11, 0x22, 0x44, 0x88][usize::from(at % 4)]).collect();
        assert_eq!(masked, expected, "{length}");
        apply_mask(&mut masked, [0x11, 0x22, 0x44, 0x88]);
        assert_eq!(masked, plain);
    }
}

#[test]
fn the_example_of_the_rfc() {
    // Section 5.7: a masked text "Hello".
    let mut payload = *b"Hello";
    apply_mask(&mut payload, [0x37, 0xfa, 0x21, 0x3d]);
    assert_eq!(payload, [0x7f, 0x9f, 0x4d, 0x51, 0x58]);
    assert_eq!(client_header(Opcode::Text, 5, [0x37, 0xfa, 0x21, 0x3d]).0[..6], [0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d]);
}
