//! Calls to the services of a UPnP gateway, and their answers (WANIPConnection:1 and :2).

use std::fmt;
use std::net::Ipv4Addr;

use crate::description::Service;
use crate::http::{Answer, post};
use crate::xml::{Token, tokens};

/// A call to a service. Mappings are for UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Get the gateway's outer address.
    Address,
    /// Map this outer port.
    Add(MappingRequest),
    /// Map this outer port or another one (version 2 only).
    AddAny(MappingRequest),
    /// Delete the mapping of this outer port.
    Delete(u16),
}

/// A mapping to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappingRequest {
    /// The outer port.
    pub outside: u16,
    /// This host's address.
    pub own: Ipv4Addr,
    /// This host's port.
    pub port: u16,
    /// The lease in seconds; 0 never ends.
    pub lease: u32,
}

impl Call {
    fn name(self) -> &'static str {
        match self {
            Self::Address => "GetExternalIPAddress",
            Self::Add(_) => "AddPortMapping",
            Self::AddAny(_) => "AddAnyPortMapping",
            Self::Delete(_) => "DeletePortMapping",
        }
    }

    /// Returns the HTTP request that makes the call.
    pub fn request(self, service: &Service) -> Vec<u8> {
        let (name, urn) = (self.name(), service.kind.urn());
        let arguments = match self {
            Self::Address => String::new(),
            Self::Add(request) | Self::AddAny(request) => request.arguments(),
            Self::Delete(outside) => mapping_arguments(outside),
        };
        let body = format!(
            "<?xml version=\"1.0\"?>\r\n<s:Envelope xmlns:s=\"http://schemas.xmlsoap.org/soap/envelope/\" \
             s:encodingStyle=\"http://schemas.xmlsoap.org/soap/encoding/\"><s:Body><u:{name} xmlns:u=\"{urn}\">{arguments}</u:{name}>\
             </s:Body></s:Envelope>\r\n"
        );
        post(service.control.place, &service.control.path, &format!("{urn}#{name}"), &body)
    }

    /// Reads the answer to this call.
    ///
    /// # Errors
    /// [`CallRefusal`] if the gateway refuses, or if the answer does not belong to this call.
    pub fn answer(self, answer: &Answer) -> Result<Done, CallRefusal> {
        let text = String::from_utf8_lossy(&answer.body);
        let fields = Fields::read(&text);
        if let Some(code) = fields.error {
            return Err(CallRefusal::Code(code));
        }
        // The element has the name of the call, followed by "Response".
        let named = fields.response.strip_suffix("Response") == Some(self.name());
        match answer.status {
            300..=399 => return Err(CallRefusal::Redirect),
            200 if named => {}
            200 => return Err(CallRefusal::Nonsense),
            status => return Err(CallRefusal::Status(status)),
        }
        match self {
            Self::Address => fields.address.map(Done::Address).ok_or(CallRefusal::Nonsense),
            Self::AddAny(_) => fields.port.map(Done::Mapped).ok_or(CallRefusal::Nonsense),
            Self::Add(request) => Ok(Done::Mapped(request.outside)),
            Self::Delete(_) => Ok(Done::Deleted),
        }
    }
}

impl MappingRequest {
    fn arguments(self) -> String {
        let Self { outside, own, port, lease } = self;
        format!(
            "{}<NewInternalPort>{port}</NewInternalPort><NewInternalClient>{own}</NewInternalClient><NewEnabled>1</NewEnabled>\
             <NewPortMappingDescription>taut</NewPortMappingDescription><NewLeaseDuration>{lease}</NewLeaseDuration>",
            mapping_arguments(outside)
        )
    }
}

/// Returns the arguments that name a mapping.
fn mapping_arguments(outside: u16) -> String {
    format!("<NewRemoteHost></NewRemoteHost><NewExternalPort>{outside}</NewExternalPort><NewProtocol>UDP</NewProtocol>")
}

/// The result of a successful call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// The outer address.
    Address(Ipv4Addr),
    /// The port is mapped to this outer port.
    Mapped(u16),
    /// The mapping was deleted.
    Deleted,
}

/// The reason why a call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallRefusal {
    /// UPnP's error code.
    Code(u16),
    /// An HTTP status that is neither a success nor a UPnP error.
    Status(u16),
    /// A redirect, which is not followed.
    Redirect,
    /// The answer does not belong to the call.
    Nonsense,
}

impl CallRefusal {
    /// Another host has the outer port.
    pub const CONFLICT: Self = Self::Code(718);
    /// Mappings never expire on this gateway.
    pub const ONLY_PERMANENT: Self = Self::Code(725);
}

impl fmt::Display for CallRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(401 | 602) => f.write_str("it does not support the request"),
            Self::Code(606) => {
                f.write_str("not authorised: port mapping is disabled there, or not allowed for this host")
            }
            Self::Code(718) => f.write_str("another host has the port"),
            Self::Code(725) => f.write_str("it makes only permanent mappings"),
            Self::Code(728) => f.write_str("it has no room for more mappings"),
            Self::Code(code) => write!(f, "error {code}"),
            Self::Status(status) => write!(f, "HTTP status {status}"),
            Self::Redirect => f.write_str("it redirects to another place, which is not followed"),
            Self::Nonsense => f.write_str("its answer does not match the request"),
        }
    }
}

/// The fields of an answer that are read.
#[derive(Default)]
struct Fields<'a> {
    /// The element whose name ends with "Response".
    response: &'a str,
    address: Option<Ipv4Addr>,
    port: Option<u16>,
    error: Option<u16>,
}

impl<'a> Fields<'a> {
    fn read(text: &'a str) -> Self {
        let mut fields = Self::default();
        let mut element = "";
        for token in tokens(text) {
            match token {
                Token::Open(name) => {
                    element = name;
                    if name.ends_with("Response") {
                        fields.response = name;
                    }
                }
                Token::Close(_) => element = "",
                Token::Text(text) => match element {
                    "NewExternalIPAddress" => fields.address = text.trim().parse().ok(),
                    "NewReservedPort" => fields.port = text.trim().parse().ok(),
                    "errorCode" => fields.error = text.trim().parse().ok(),
                    _ => {}
                },
            }
        }
        fields
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::description::ServiceKind;
    use crate::url::Url;

    const REQUEST: MappingRequest =
        MappingRequest { outside: 9000, own: Ipv4Addr::new(192, 168, 1, 5), port: 8288, lease: 7_200 };

    fn answer(status: u16, inner: &str) -> Answer {
        let body = format!("<s:Envelope xmlns:s=\"x\"><s:Body>{inner}</s:Body></s:Envelope>");
        Answer { status, body: body.into_bytes() }
    }

    #[test]
    fn a_call_has_its_arguments() {
        let control = Url::parse("http://192.168.1.1:5000/ctl").unwrap();
        let request = Call::Add(REQUEST).request(&Service { kind: ServiceKind::Ip1, control });
        let text = String::from_utf8(request).unwrap();
        for part in [
            "POST /ctl HTTP/1.1\r\nHost: 192.168.1.1:5000\r\n",
            "SOAPAction: \"urn:schemas-upnp-org:service:WANIPConnection:1#AddPortMapping\"\r\n",
            "<NewExternalPort>9000</NewExternalPort><NewProtocol>UDP</NewProtocol><NewInternalPort>8288</NewInternalPort>",
            "<NewInternalClient>192.168.1.5</NewInternalClient>",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
    }

    #[test]
    fn answers_are_read_by_their_call() {
        let address = answer(
            200,
            "<u:GetExternalIPAddressResponse><NewExternalIPAddress> 203.0.113.9 </NewExternalIPAddress></u:GetExternalIPAddressResponse>",
        );
        assert_eq!(Call::Address.answer(&address), Ok(Done::Address([203, 0, 113, 9].into())));
        assert_eq!(Call::Add(REQUEST).answer(&address), Err(CallRefusal::Nonsense));
        let added = answer(200, "<u:AddPortMappingResponse/>");
        assert_eq!(Call::Add(REQUEST).answer(&added), Ok(Done::Mapped(9000)));
        assert_eq!(Call::AddAny(REQUEST).answer(&added), Err(CallRefusal::Nonsense));
        let any = "<AddAnyPortMappingResponse><NewReservedPort>9001</NewReservedPort></AddAnyPortMappingResponse>";
        assert_eq!(Call::AddAny(REQUEST).answer(&answer(200, any)), Ok(Done::Mapped(9001)));
        assert_eq!(Call::Delete(1).answer(&answer(200, "<DeletePortMappingResponse/>")), Ok(Done::Deleted));
    }

    #[test]
    fn refusals_are_told_apart() {
        let fault =
            answer(500, "<s:Fault><detail><UPnPError><errorCode>718</errorCode></UPnPError></detail></s:Fault>");
        assert_eq!(Call::Add(REQUEST).answer(&fault), Err(CallRefusal::CONFLICT));
        assert_eq!(Call::Address.answer(&answer(404, "")), Err(CallRefusal::Status(404)));
        assert_eq!(Call::Address.answer(&answer(302, "<u:GetExternalIPAddressResponse/>")), Err(CallRefusal::Redirect));
        for refusal in [401, 606, 718, 725, 728, 999].map(CallRefusal::Code) {
            assert!(!refusal.to_string().is_empty());
        }
    }
}
