//! What clients say to the proxies of a userspace network.

use taut_proxy::{Parsed, Refusal, Target, http, socks5};

/// Reads the input as SOCKS5 and as HTTP: no panic, no request for more than the bound, and the same result whether bytes come at once or one by one.
pub(crate) fn handshake(input: &[u8]) {
    check(input, socks5::MAX_REQUEST, socks5::greeting);
    check(input, socks5::MAX_REQUEST, socks5::request);
    check(input, http::MAX_HEAD, http::request);
    if let Parsed::Done(target, _) = socks5::request(input) {
        assert_same(&target);
    }
    if let Parsed::Done(request, _) = http::request(input) {
        assert_same(&request.target);
        // What is passed on is one head and nothing behind it, without a line of its own making.
        if let Some(head) = request.head {
            let text = String::from_utf8(head).expect("a head is made of text");
            assert_eq!(text.find("\r\n\r\n"), Some(text.len() - 4));
            assert!(text.ends_with("\r\nConnection: close\r\n\r\n"));
            assert_eq!(text.matches('\n').count(), text.matches("\r\n").count());
        }
    }
}

fn check<T: PartialEq + std::fmt::Debug>(input: &[u8], most: usize, read: impl Fn(&[u8]) -> Parsed<T, Refusal>) {
    let whole = read(input);
    match &whole {
        Parsed::More => assert!(input.len() < most, "it asks for more than {most} bytes"),
        Parsed::Done(_, used) => {
            assert!(*used <= input.len() && *used <= most);
            assert_eq!(read(&input[..*used]), whole, "the bytes behind it change nothing");
            assert_eq!(read(&input[..*used - 1]), Parsed::More, "it needs its last byte");
        }
        Parsed::Wrong(_) => {}
    }
}

fn assert_same(target: &Target) {
    assert_eq!(target.to_string().parse::<Target>().as_ref(), Ok(target));
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    [
        &b"\x05\x01\x00"[..],
        b"\x05\x02\x00\x02\x05\x01\x00\x03\x03nas\x00\x16SSH-2.0",
        b"\x05\x01\x00\x01\x64\x40\x00\x02\x01\xbb",
        b"\x05\x01\x00\x04\xfd\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x02\x00\x50",
        b"\x05\x01\x00\x03\x0a100.64.0.2\x00\x50",
        b"\x05\x03\x00\x01\0\0\0\0\0\0",
        b"CONNECT nas.home.taut.internal:443 HTTP/1.1\r\nHost: nas.home.taut.internal:443\r\nUser-Agent: curl/8.14.1\r\nProxy-Connection: Keep-Alive\r\n\r\n\x16\x03\x01",
        b"CONNECT [fd00::2]:22 HTTP/1.0\r\n\r\n",
        b"GET http://nas/a?b=c HTTP/1.1\r\nHost: nas\r\nAccept: */*\r\nProxy-Connection: Keep-Alive\r\n\r\n",
        b"POST http://100.64.0.2:8080 HTTP/1.1\r\nHost: 100.64.0.2:8080\r\nContent-Length: 3\r\nConnection: keep-alive\r\n\r\nabc",
    ]
    .map(<[u8]>::to_vec)
    .to_vec()
}
