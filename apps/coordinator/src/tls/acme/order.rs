//! One certificate: order, proof that the names lead here, request, download (RFC 8555 section 7.4).

use std::thread::sleep;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::json;
use taut_base::encode_base64url;

use super::super::issue::CertificateKey;
use super::challenges::Challenges;
use super::client::{AcmeError, Answer, Client, Problem};

/// Time for the server to check a name, and to issue the certificate, 3 min each.
const PATIENCE: Duration = Duration::from_secs(180);

/// Pause before the server is asked again, 1 s, and the longest one that it may ask for, 15 s.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    Pending,
    Ready,
    Processing,
    Valid,
    #[serde(other)]
    Failed,
}

#[derive(Deserialize)]
struct Order {
    status: Status,
    #[serde(default)]
    authorizations: Vec<String>,
    finalize: String,
    certificate: Option<String>,
    error: Option<Problem>,
}

#[derive(Deserialize)]
struct Identifier {
    value: String,
}

#[derive(Deserialize)]
struct Authorization {
    status: Status,
    identifier: Identifier,
    challenges: Vec<Challenge>,
}

#[derive(Deserialize)]
struct Challenge {
    r#type: String,
    url: String,
    #[serde(default)]
    token: String,
    error: Option<Problem>,
}

/// Obtains a certificate for these names. Returns its chain in PEM form, and its key.
pub(super) fn obtain(
    client: &mut Client,
    names: &[String],
    challenges: &Challenges,
) -> Result<(Vec<u8>, CertificateKey), AcmeError> {
    let identifiers: Vec<_> = names.iter().map(|name| json!({ "type": "dns", "value": name })).collect();
    let url = client.directory.new_order.clone();
    let answer = client.post(&url, &json!({ "identifiers": identifiers }))?;
    let (url, order) = (answer.location()?, answer.read::<Order>()?);
    if order.authorizations.len() > names.len() {
        return Err(AcmeError::new("the server asks for more proofs than names were ordered"));
    }
    for authorization in &order.authorizations {
        prove(client, authorization, names, challenges)?;
    }
    let key = CertificateKey::generate().map_err(AcmeError::new)?;
    let request = key.request(names).map_err(AcmeError::new)?;
    client.post(&order.finalize, &json!({ "csr": encode_base64url(&request) }))?;
    let certificate = poll(client, &url, |answer| {
        let order = answer.read::<Order>()?;
        match order.status {
            Status::Valid => Ok(order.certificate),
            Status::Failed => Err(refused("the order was refused", order.error.as_ref())),
            _ => Ok(None),
        }
    })?;
    Ok((client.get(&certificate)?.body, key))
}

/// Proves that a name leads to this coordinator.
fn prove(client: &mut Client, url: &str, names: &[String], challenges: &Challenges) -> Result<(), AcmeError> {
    let authorization = client.get(url)?.read::<Authorization>()?;
    // Nobody else gets a certificate of ours to show.
    if !names.iter().any(|name| name.eq_ignore_ascii_case(&authorization.identifier.value)) {
        return Err(AcmeError::new("the server asks for a proof of a name that was not ordered"));
    }
    if matches!(authorization.status, Status::Valid) {
        return Ok(());
    }
    let (name, wanted) = (authorization.identifier.value, challenges.kind());
    let challenge = authorization.challenges.into_iter().find(|challenge| challenge.r#type == wanted);
    let challenge =
        challenge.ok_or_else(|| AcmeError::new(format!("the server does not offer {wanted} for {name}")))?;
    let authorization = client.key_authorization(&challenge.token);
    let _shown = challenges.show(&name, &challenge.token, &authorization).map_err(AcmeError::new)?;
    client.post(&challenge.url, &json!({}))?;
    poll(client, url, |answer| {
        let authorization = answer.read::<Authorization>()?;
        match authorization.status {
            Status::Valid => Ok(Some(())),
            Status::Pending | Status::Processing | Status::Ready => Ok(None),
            Status::Failed => {
                let error = authorization.challenges.iter().find_map(|challenge| challenge.error.as_ref());
                Err(refused(&format!("the check of {name} failed"), error))
            }
        }
    })
}

fn refused(what: &str, problem: Option<&Problem>) -> AcmeError {
    AcmeError::new(problem.map_or_else(|| String::from(what), |problem| format!("{what}: {}", problem.reason())))
}

/// Reads a resource until `done` finds what it waits for.
fn poll<T>(
    client: &mut Client,
    url: &str,
    done: impl Fn(&Answer) -> Result<Option<T>, AcmeError>,
) -> Result<T, AcmeError> {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        let answer = client.get(url)?;
        if let Some(found) = done(&answer)? {
            return Ok(found);
        }
        sleep(answer.retry_after().unwrap_or(PAUSE).clamp(PAUSE, LONGEST_PAUSE));
    }
    Err(AcmeError::new(format!("the server did not finish within {} s: {url}", PATIENCE.as_secs())))
}
