//! Input from a gateway: datagrams, HTTP answers, UPnP pages, and the state machine that trusts none of them.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::Duration;

use taut_base::Time;
use taut_portmap::description::services;
use taut_portmap::http::{Answer, MAX_ANSWER, read};
use taut_portmap::soap::{Call, Done, MappingRequest};
use taut_portmap::xml::{Token, tokens};
use taut_portmap::{
    FetchError, Gateway, GatewaySocket, LEASE, MAX_PORTS, PortMapper, PortmapEvent, PortmapOutput, Url, nat_pmp, pcp,
    ssdp,
};
use taut_testkit::Seeded;

use crate::input::{Input, piece};

const GATEWAY: Ipv4Addr = Ipv4Addr::new(192, 168, 1, 1);
const OWN: Ipv4Addr = Ipv4Addr::new(192, 168, 1, 5);
const START: Time = Time(1_000_000_000_000);
/// Maximum number of steps of a script that are executed, 64.
const MAX_STEPS: usize = 64;
/// Maximum number of outputs after one step, six for each port: a few outputs, and as many ends of mappings.
const MAX_OUTPUTS: usize = 6 * MAX_PORTS;

const DESCRIPTION: &str = "<?xml version=\"1.0\"?><root xmlns=\"urn:schemas-upnp-org:device-1-0\"><URLBase>http://192.168.1.1:5000/\
    </URLBase><device><serviceList><service><serviceType>urn:schemas-upnp-org:service:WANIPConnection:2</serviceType><controlURL>\
    /ctl/IPConn</controlURL></service></serviceList></device></root>";

/// A response of PCP or NAT-PMP, or the answer to a UPnP search: parsed values are within their bounds, and are written as the same bytes.
pub(crate) fn datagram(data: &[u8]) {
    if let Some(response) = pcp::Response::parse(data) {
        assert!((24..=pcp::MAX_LEN).contains(&data.len()) && !response.result.to_string().is_empty());
        if let Some(map) = response.map {
            assert_eq!(&data[24..36], &map.nonce);
            assert_eq!(&data[40..44], [map.port.to_be_bytes(), map.outside.port().to_be_bytes()].concat());
        }
        assert!(nat_pmp::Response::parse(data).is_none(), "a datagram is valid as PCP and as NAT-PMP");
    }
    if let Some(response) = nat_pmp::Response::parse(data) {
        assert_eq!(
            (&data[2..4], &data[4..8]),
            (&response.result.0.to_be_bytes()[..], &response.epoch.to_be_bytes()[..])
        );
        if let nat_pmp::Body::Map { port, outside, lifetime } = response.body {
            // From the port fields on, a request has the layout of its response.
            assert_eq!(nat_pmp::map_request(port, outside, lifetime)[4..], data[8..16]);
        }
    }
    if let Some(found) = ssdp::parse(data) {
        clean(&found.location);
        assert!(found.server.len() <= 64 && found.server.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
    }
}

/// Checks that a name from the gateway cannot end a line of a request.
fn clean(url: &Url) {
    assert!(url.place.port() != 0 && url.path.starts_with('/') && url.path.bytes().all(|byte| byte.is_ascii_graphic()));
    assert_eq!(Url::parse(&url.to_string()).as_ref(), Some(url));
    let request = taut_portmap::http::get(url.place, &url.path);
    assert_eq!(request.windows(4).filter(|window| window == b"\r\n\r\n").count(), 1);
}

/// An HTTP answer, byte by byte: more bytes do not change a complete answer, and a refusal is final.
pub(crate) fn http(data: &[u8]) {
    let mut known = None;
    for length in 0..=data.len() {
        let now = read(&data[..length], false);
        if let Some(known) = &known {
            assert_eq!(&now, known, "changed at byte {length}");
        } else if now != Ok(None) {
            known = Some(now);
        }
    }
    let whole = read(data, true);
    assert!(whole != Ok(None), "a complete answer is treated as incomplete");
    if let Some(known) = known {
        assert_eq!(whole, known);
    }
    if let Ok(Some(answer)) = whole {
        assert!(answer.body.len() <= data.len() && data.len() <= MAX_ANSWER);
    }
}

/// A UPnP page: its tokens are parts of it in order, its services are at the gateway, and answers are parsed without panic.
pub(crate) fn xml(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let range = text.as_bytes().as_ptr_range();
    let mut count = 0;
    for token in tokens(&text) {
        let (Token::Open(part) | Token::Close(part) | Token::Text(part)) = token;
        assert!(part.is_empty() || range.contains(&part.as_ptr()));
        count += 1;
    }
    assert!(count <= text.len(), "{count} tokens of {} bytes", text.len());
    let page = Url { place: SocketAddrV4::new(GATEWAY, 5000), path: String::from("/desc/root.xml") };
    for service in services(&page, data) {
        assert_eq!(*service.control.place.ip(), GATEWAY);
        clean(&service.control);
    }
    let wanted = MappingRequest { outside: 9000, own: OWN, port: 8288, lease: 7_200 };
    for (status, call) in
        [(200, Call::Address), (200, Call::Add(wanted)), (500, Call::AddAny(wanted)), (302, Call::Delete(1))]
    {
        let answer = call.answer(&Answer { status, body: data.to_vec() });
        assert!(status == 200 || answer.is_err());
        assert!(!matches!((call, answer), (Call::Add(_), Ok(Done::Mapped(outside))) if outside != 9000));
    }
}

/// A script: each step is a kind and its operands. The state machine reports only usable candidates, sends to the gateway only, and its state does not
/// grow.
pub(crate) fn machine(data: &[u8]) {
    let mut machine = PortMapper::new(Seeded::new(1), vec!["100.64.0.0/10".parse().expect("a prefix")]);
    let (mut now, mut asked, mut fetch) = (START, Vec::new(), None);
    machine.set_ports(&[8288], now);
    machine.set_gateway(Some(Gateway { address: GATEWAY, own: OWN }), now);
    let mut input = Input::new(data);
    for _ in 0..MAX_STEPS {
        check(&mut machine, now, &mut asked, &mut fetch);
        if input.is_empty() {
            return;
        }
        match input.byte() % 8 {
            0 => {
                machine.handle_datagram(GatewaySocket::Pcp, SocketAddr::from((GATEWAY, pcp::PORT)), input.piece(), now);
            }
            1 => machine.handle_datagram(
                GatewaySocket::Ssdp,
                SocketAddr::from((GATEWAY, ssdp::PORT)),
                input.piece(),
                now,
            ),
            // An answer to the last question, altered.
            2 => machine.handle_datagram(
                GatewaySocket::Pcp,
                SocketAddr::from((GATEWAY, pcp::PORT)),
                &echo(&asked, &mut input),
                now,
            ),
            3 => answer(&mut machine, &mut fetch, Ok(Answer { status: 200, body: input.piece().to_vec() }), now),
            4 => answer(&mut machine, &mut fetch, Err(FetchError::TooSlow), now),
            5 => {
                now = now + Duration::from_millis(u64::from(input.word()) * 100);
                machine.handle_timeout(now);
            }
            6 => {
                let ports: Vec<u16> =
                    input.piece().chunks(2).map(|two| u16::from(two[0]) << 8 | u16::from(two[two.len() - 1])).collect();
                machine.set_ports(&ports, now);
            }
            _ => match input.byte() % 4 {
                0 => machine.set_gateway(None, now),
                1 => machine.set_gateway(Some(Gateway { address: GATEWAY, own: OWN }), now),
                2 => machine.check(now),
                _ => machine.handle_closed(now),
            },
        }
    }
}

fn answer(machine: &mut PortMapper<Seeded>, fetch: &mut Option<u32>, answer: Result<Answer, FetchError>, now: Time) {
    if let Some(id) = fetch.take() {
        machine.handle_answer(id, answer, now);
    }
}

/// Returns the answer of an honest gateway to the last request, with a few bytes replaced by those of the script.
fn echo(asked: &[u8], input: &mut Input<'_>) -> Vec<u8> {
    let mut reply = match asked.first() {
        Some(2) => asked.to_vec(),
        Some(0) if asked.len() == 2 => vec![0, 128, 0, 0, 0, 0, 0, 9, 5, 5, 5, 9],
        Some(0) => [&[0, 129, 0, 0, 0, 0, 0, 9], &asked[4..]].concat(),
        _ => return Vec::new(),
    };
    if reply[0] == 2 {
        reply[1] |= 0x80;
        reply[8..24].fill(0);
        reply[44..].copy_from_slice(&Ipv4Addr::new(5, 5, 5, 9).to_ipv6_mapped().octets());
    }
    for change in input.piece().chunks_exact(2) {
        let place = usize::from(change[0]) % reply.len();
        reply[place] = change[1];
    }
    reply
}

fn check(machine: &mut PortMapper<Seeded>, now: Time, asked: &mut Vec<u8>, fetch: &mut Option<u32>) {
    let mut outputs = 0;
    while let Some(output) = machine.poll_output() {
        outputs += 1;
        match output {
            PortmapOutput::Send { socket: GatewaySocket::Pcp, to, bytes } => {
                assert_eq!(to, SocketAddrV4::new(GATEWAY, pcp::PORT));
                *asked = bytes;
            }
            PortmapOutput::Send { to, .. } => assert!(to == ssdp::GROUP || *to.ip() == GATEWAY),
            PortmapOutput::Fetch { id, place, .. } => {
                assert_eq!(*place.ip(), GATEWAY);
                *fetch = Some(id);
            }
            PortmapOutput::Event(PortmapEvent::Mapped(mapping)) => {
                let overlay = ["100.64.0.0/10".parse().expect("a prefix")];
                assert!(taut_path::acceptable(mapping.outside, &overlay) && mapping.until <= now + LEASE);
            }
            PortmapOutput::Event(_) => {}
        }
    }
    assert!(outputs <= MAX_OUTPUTS, "{outputs} outputs at once");
    let report = machine.report();
    assert!(report.mappings.len() <= MAX_PORTS && report.to_string().len() < 8_192);
    machine.handle_timeout(now);
    assert!(machine.poll_timeout().is_none_or(|next| next > now), "a timeout is due again right after it was handled");
}

/// Seeds: responses of each kind.
pub(crate) fn datagrams() -> Vec<Vec<u8>> {
    let suggested = SocketAddrV4::new(Ipv4Addr::new(5, 5, 5, 9), 9000);
    let request = pcp::Request { lifetime: 7_200, client: OWN, nonce: [7; 12], port: 8288, suggested }.write().to_vec();
    let mut refusal = echo(&request, &mut Input::new(&[]));
    refusal[3] = 2;
    vec![
        echo(&request, &mut Input::new(&[])),
        refusal,
        echo(&nat_pmp::ADDRESS_REQUEST, &mut Input::new(&[])),
        echo(&nat_pmp::map_request(8288, 9000, 7_200), &mut Input::new(&[])),
        vec![0, 0x81, 0, 1, 0, 0, 0, 9],
        b"HTTP/1.1 200 OK\r\nCACHE-CONTROL: max-age=120\r\nST: urn:schemas-upnp-org:device:InternetGatewayDevice:1\r\n\
          SERVER: Debian UPnP/1.1 MiniUPnPd/2.3.1\r\nLOCATION: http://192.168.1.1:5000/rootDesc.xml\r\n\r\n"
            .to_vec(),
    ]
}

/// Seeds: HTTP answers in each framing.
pub(crate) fn answers() -> Vec<Vec<u8>> {
    [
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n<a/>\n",
        "HTTP/1.0 500 Internal Server Error\r\nServer: x\r\n\r\n<errorCode>718</errorCode>",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n<a/>\r\n1;x=y\r\n\n\r\n0\r\n\r\n",
        "HTTP/1.1 302 Found\r\nLocation: http://10.0.0.1/\r\nContent-Length: 0\r\n\r\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}

/// Seeds: pages and answers of UPnP.
pub(crate) fn pages() -> Vec<Vec<u8>> {
    [
        DESCRIPTION,
        "<s:Body><u:GetExternalIPAddressResponse><NewExternalIPAddress>5.5.5.9</NewExternalIPAddress></u:GetExternalIPAddressResponse></s:Body>",
        "<u:AddAnyPortMappingResponse><NewReservedPort>9001</NewReservedPort></u:AddAnyPortMappingResponse>",
        "<!DOCTYPE x [<!ENTITY a \"b\">]><u:AddPortMappingResponse a='>'/><!-- --><![CDATA[<c>]]>",
        "<s:Fault><detail><UPnPError><errorCode>725</errorCode></UPnPError></detail></s:Fault>",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}

/// Seeds: a gateway of each kind, with a mapping, its renewal and its end.
pub(crate) fn scripts() -> Vec<Vec<u8>> {
    let echo = [&[2][..], &piece(&[])].concat();
    let hour = vec![5, 0x60, 0xea];
    let step = |kind: u8, bytes: &[u8]| [&[kind][..], &piece(bytes)].concat();
    let unsupported = step(0, &[0, 0x81, 0, 1, 0, 0, 0, 9]);
    let pages = pages();
    let upnp = [vec![7, 3], step(1, &datagrams()[5])].into_iter().chain(pages[..3].iter().map(|page| step(3, page)));
    vec![
        [&echo[..], &step(6, &[0x20, 0x60, 0x20, 0x61]), &echo, &hour, &echo, &step(6, &[]), &echo].concat(),
        [&unsupported[..], &echo, &echo, &hour, &echo, &[7, 2, 7, 0, 7, 1]].concat(),
        [upnp.collect::<Vec<_>>().concat(), hour.clone(), vec![4], step(6, &[])].concat(),
    ]
}
