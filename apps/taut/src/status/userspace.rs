//! The services of a network without a TUN device.

use taut_agent::api::{UserspaceServiceKind, UserspaceStatus};

/// Returns a row for each service, and one for the connections.
pub(super) fn rows(status: &UserspaceStatus) -> Vec<Vec<String>> {
    let mut rows: Vec<Vec<String>> = status
        .services
        .iter()
        .map(|service| {
            let heading = match service.service {
                UserspaceServiceKind::Socks5 => "SOCKS5",
                UserspaceServiceKind::HttpProxy => "HTTP proxy",
                UserspaceServiceKind::Forward => "forward",
                UserspaceServiceKind::Publish => "published",
                UserspaceServiceKind::Other => "service",
            };
            let target = service.target.as_ref().map_or_else(String::new, |target| format!(" to {target}"));
            let place = match service.service {
                UserspaceServiceKind::Publish => format!("port {}{target}", service.listen),
                _ => format!("{}{target}", service.listen),
            };
            let state =
                service.problem.as_ref().map_or_else(|| place.clone(), |problem| format!("{place}: off, {problem}"));
            vec![String::from(heading), state]
        })
        .collect();
    if !rows.is_empty() {
        rows.push(vec![String::from("connections"), status.connections.to_string()]);
    }
    rows
}

#[cfg(test)]
mod tests {
    use taut_agent::api::UserspaceService;

    use super::*;

    #[test]
    fn each_service_has_a_row() {
        let service = |service, listen: &str, target: Option<&str>, problem: Option<&str>| UserspaceService {
            service,
            listen: String::from(listen),
            target: target.map(String::from),
            problem: problem.map(String::from),
        };
        let services = vec![
            service(UserspaceServiceKind::Socks5, "127.0.0.1:1080", None, None),
            service(UserspaceServiceKind::Forward, "127.0.0.1:2222", Some("nas:22"), Some("another program has it")),
            service(UserspaceServiceKind::Publish, "80", Some("127.0.0.1:8080"), None),
        ];
        let status = UserspaceStatus { services, connections: 3, over_limit: 0 };
        let rows: Vec<String> = rows(&status).iter().map(|row| row.join(" | ")).collect();
        let wanted = [
            "SOCKS5 | 127.0.0.1:1080",
            "forward | 127.0.0.1:2222 to nas:22: off, another program has it",
            "published | port 80 to 127.0.0.1:8080",
            "connections | 3",
        ];
        assert_eq!(rows, wanted);
    }
}
