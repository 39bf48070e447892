//! The description of a UPnP gateway: its services, and the URLs to call them at.

use crate::url::Url;
use crate::xml::{Token, tokens, unescape};

/// Services kept of one description; real descriptions have one or two that map ports.
const MAX_SERVICES: usize = 4;

/// A kind of service that maps ports. Only these names are ever written into a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServiceKind {
    /// `WANIPConnection` of IGD version 2: may choose another outer port.
    Ip2,
    /// `WANIPConnection` of version 1.
    Ip1,
    /// `WANPPPConnection`: the same actions on a PPP line.
    Ppp1,
}

impl ServiceKind {
    /// All kinds, best first.
    pub const ALL: [Self; 3] = [Self::Ip2, Self::Ip1, Self::Ppp1];

    /// Returns the full name of the kind.
    pub fn urn(self) -> &'static str {
        match self {
            Self::Ip2 => "urn:schemas-upnp-org:service:WANIPConnection:2",
            Self::Ip1 => "urn:schemas-upnp-org:service:WANIPConnection:1",
            Self::Ppp1 => "urn:schemas-upnp-org:service:WANPPPConnection:1",
        }
    }
}

/// A service and the URL to call it at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// The kind of service.
    pub kind: ServiceKind,
    /// The URL to call it at, on the address that the description came from.
    pub control: Url,
}

/// Returns the services that map ports in the description found at `page`, best first. Services with a URL on another address than the page's are
/// left out: only the gateway is contacted (fault D15).
pub fn services(page: &Url, body: &[u8]) -> Vec<Service> {
    let text = String::from_utf8_lossy(body);
    let mut base = page.clone();
    let mut found: Vec<(ServiceKind, String)> = Vec::new();
    let (mut element, mut kind, mut control) = ("", None, None);
    for token in tokens(&text) {
        match token {
            Token::Open(name) => element = name,
            Token::Close("service") => {
                if let (Some(kind), Some(control)) = (kind.take(), control.take())
                    && found.len() < MAX_SERVICES
                {
                    found.push((kind, control));
                }
                (element, kind, control) = ("", None, None);
            }
            Token::Close(_) => element = "",
            Token::Text(text) => match element {
                "URLBase" => base = Url::parse(text.trim()).unwrap_or(base),
                "serviceType" => kind = ServiceKind::ALL.into_iter().find(|kind| kind.urn() == text.trim()),
                "controlURL" => control = Some(unescape(text.trim()).into_owned()),
                _ => {}
            },
        }
    }
    let place = |(kind, reference): (ServiceKind, String)| Some(Service { kind, control: base.join(&reference)? });
    let mut services: Vec<Service> = found.into_iter().filter_map(place).collect();
    services.retain(|service| service.control.place.ip() == page.place.ip());
    services.sort_by_key(|service| service.kind);
    services
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> Url {
        Url::parse("http://192.168.1.1:5000/desc/root.xml").unwrap()
    }

    fn service(urn: &str, control: &str) -> String {
        format!("<service><serviceType>{urn}</serviceType><controlURL>{control}</controlURL></service>")
    }

    #[test]
    fn finds_the_services_that_map_ports_best_first() {
        let body = [
            "<root xmlns=\"urn:schemas-upnp-org:device-1-0\">",
            &service("urn:schemas-upnp-org:service:WANCommonInterfaceConfig:1", "/ctl/Common"),
            &service(ServiceKind::Ppp1.urn(), "ppp?a=1&amp;b=2"),
            &service(ServiceKind::Ip1.urn(), "/ctl/IPConn"),
            "</root>",
        ];
        let services = services(&page(), body.concat().as_bytes());
        let shown: Vec<_> = services.iter().map(|service| (service.kind, service.control.to_string())).collect();
        let expected = [
            (ServiceKind::Ip1, String::from("http://192.168.1.1:5000/ctl/IPConn")),
            (ServiceKind::Ppp1, String::from("http://192.168.1.1:5000/desc/ppp?a=1&b=2")),
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn fault_d15_services_elsewhere_are_left_out() {
        let elsewhere = service(ServiceKind::Ip1.urn(), "http://10.9.9.9:80/steal");
        assert_eq!(services(&page(), elsewhere.as_bytes()), []);
        let based = format!("<URLBase>http://127.0.0.1:80/</URLBase>{}", service(ServiceKind::Ip1.urn(), "/ctl"));
        assert_eq!(services(&page(), based.as_bytes()), []);
        let own = format!("<URLBase>http://192.168.1.1:49152</URLBase>{}", service(ServiceKind::Ip1.urn(), "/ctl"));
        assert_eq!(services(&page(), own.as_bytes())[0].control.place.port(), 49_152);
    }

    #[test]
    fn fault_d15_a_description_without_end_gives_a_few_services() {
        let many = service(ServiceKind::Ip1.urn(), "/ctl").repeat(500);
        assert_eq!(services(&page(), many.as_bytes()).len(), MAX_SERVICES);
    }
}
