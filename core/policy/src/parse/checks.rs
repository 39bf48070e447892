//! The section `tests`.

use super::fields::{Fields, Known};
use super::ports::{host_and_ports, port};
use super::rules::proto;
use super::words::{Place, selector};
use crate::error::PolicyError;
use crate::hujson::Item;
use crate::policy::{Policy, PolicyTest, TestTarget};
use crate::protocol::{has_ports, protocol_name};

/// Limit on the tests of a policy, 1,000, and on the destinations of one test.
const MAX_TESTS: usize = 1_000;

const TEST: [Known; 4] = [("src", &[]), ("proto", &[]), ("accept", &["allow"]), ("deny", &[])];

/// Reads `tests`.
pub(super) fn tests(item: &Item, policy: &Policy) -> Result<Vec<PolicyTest>, PolicyError> {
    let items = item.list("`tests`")?;
    if let Some(item) = items.get(MAX_TESTS) {
        return Err(PolicyError::at(item.at, format!("the policy has more than {MAX_TESTS} tests")));
    }
    items.iter().map(|item| test(item, policy)).collect()
}

fn test(item: &Item, policy: &Policy) -> Result<PolicyTest, PolicyError> {
    let mut fields = Fields::read(item, "an entry of `tests`", &TEST)?;
    let source = fields.need("src")?;
    let src = selector(source.text("`src`")?, source, Place::Test, policy)?;
    let proto = match fields.take("proto") {
        Some(item) => proto(item)?,
        None => None,
    };
    let mut targets = |name: &str| match fields.take(name) {
        Some(item) => destinations(item, name, proto, policy),
        None => Ok(Vec::new()),
    };
    let (accept, deny) = (targets("accept")?, targets("deny")?);
    if accept.is_empty() && deny.is_empty() {
        return Err(PolicyError::at(item.at, "a test without `accept` and `deny` tests nothing"));
    }
    Ok(PolicyTest { line: item.at.line, src, proto, accept, deny })
}

fn destinations(item: &Item, name: &str, proto: Option<u8>, policy: &Policy) -> Result<Vec<TestTarget>, PolicyError> {
    let items = item.list(&format!("`{name}`"))?;
    if let Some(item) = items.get(MAX_TESTS) {
        return Err(PolicyError::at(item.at, format!("a test has more than {MAX_TESTS} destinations")));
    }
    items.iter().map(|item| destination(item, proto, policy)).collect()
}

fn destination(item: &Item, proto: Option<u8>, policy: &Policy) -> Result<TestTarget, PolicyError> {
    let wrong = |message: String| PolicyError::at(item.at, message);
    let text = item.text("a destination of a test")?.trim();
    let (host, number) = host_and_ports(text).map_err(wrong)?;
    let port = port(number).map_err(|_| {
        wrong(format!("`{text}`: `{number}` is not one port"))
            .hint("a test is about one port; write one entry for each")
    })?;
    match proto.filter(|proto| !has_ports(*proto)) {
        None if port == 0 => return Err(wrong(format!("`{text}`: there is no port 0"))),
        Some(proto) if port != 0 => {
            let message = format!("`{text}`: {} has no ports", protocol_name(proto));
            return Err(wrong(message).hint("write port 0"));
        }
        _ => {}
    }
    Ok(TestTarget { line: item.at.line, dst: selector(&host, item, Place::Test, policy)?, port })
}
