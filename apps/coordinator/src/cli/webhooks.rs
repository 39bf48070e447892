//! `webhooks`, over the API.

use serde_json::Value;

use super::arguments::Arguments;
use super::remote::Remote;
use super::table::{distance, table};
use super::{CommandError, no_verb};
use crate::contract::{CreateWebhook, CreatedWebhook, RemovedWebhook, TestedWebhook, WebhookEntry, WebhookList};

pub(super) fn run(mut arguments: Arguments) -> Result<(), CommandError> {
    let verb = arguments.need("list, create, remove or test")?;
    match verb.as_str() {
        "list" => {
            let remote = finished(arguments)?;
            remote.show(&remote.get("webhooks")?, list)
        }
        "create" => {
            let url = arguments.need("the URL")?;
            let (network, events) = (arguments.value("network")?, arguments.value("events")?);
            let events = events.map(|text| text.split(',').map(|event| String::from(event.trim())).collect());
            let remote = finished(arguments)?;
            let answer = remote.post("webhooks", &CreateWebhook { url, network, events })?;
            remote.show(&answer, |answer: CreatedWebhook| {
                format!("webhook: {}\nsecret: {}\n", answer.webhook.id, answer.secret)
            })
        }
        "remove" => {
            let id = number(&mut arguments)?;
            let remote = finished(arguments)?;
            let answer = remote.delete(&format!("webhooks/{id}"))?;
            remote.show(&answer, |answer: RemovedWebhook| format!("webhook {} is removed\n", answer.removed))
        }
        "test" => {
            let id = number(&mut arguments)?;
            let remote = finished(arguments)?;
            let answer = remote.post(&format!("webhooks/{id}/test"), &Value::Null)?;
            let tested: TestedWebhook = remote.typed(&answer)?;
            remote.show(&answer, |answer: TestedWebhook| match answer.status {
                Some(status) => format!("webhook {id} answers {status}: the event was delivered\n"),
                None => format!("webhook {id} did not get the event\n"),
            })?;
            match tested.error {
                None => Ok(()),
                Some(error) => Err(CommandError::Run(format!("the event was not delivered to webhook {id}: {error}"))),
            }
        }
        other => Err(no_verb("webhooks", other, &["list", "create", "remove", "test"])),
    }
}

/// Reads the options of a request when nothing else is expected.
fn finished(mut arguments: Arguments) -> Result<Remote, CommandError> {
    let remote = Remote::new(&mut arguments)?;
    arguments.finish()?;
    Ok(remote)
}

fn number(arguments: &mut Arguments) -> Result<i64, CommandError> {
    let id = arguments.need("the webhook's number")?;
    id.parse().map_err(|_| CommandError::Usage(format!("`{id}` is not a number; `webhooks list` shows the numbers")))
}

fn list(answer: WebhookList) -> String {
    if answer.webhooks.is_empty() {
        return String::from("no webhooks; `taut-coordinator webhooks create URL` makes one\n");
    }
    let heads = ["ID", "NETWORK", "STATE", "NEXT TRY", "EVENTS", "URL", "LAST ERROR"].map(String::from).to_vec();
    let row = |webhook: WebhookEntry| {
        vec![
            webhook.id.to_string(),
            webhook.network.unwrap_or_else(|| String::from("all")),
            String::from(webhook.state.name()),
            webhook.next_try_at.map(distance).unwrap_or_default(),
            webhook.events.join(","),
            webhook.url,
            webhook.last_error.unwrap_or_default(),
        ]
    };
    table(&std::iter::once(heads).chain(answer.webhooks.into_iter().map(row)).collect::<Vec<_>>())
}
