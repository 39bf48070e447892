//! The corpus of HTTP requests, and mutations of it: no request leads to a status of 500 or above.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::Request;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::document::check_answer;
use super::world::{Directory, TestCoordinator};
use crate::api;

/// Mutations of each file by day and by night. Some of them are writes that are forced to the disk.
const MUTATIONS: (u64, u64) = (50, 5_000);

/// Returns the request in a file of the corpus, in the form of `seed.rs` of the fuzz targets; `None` if it is not a request.
fn request(input: &[u8], token: &str) -> Option<Request<Body>> {
    let text = String::from_utf8_lossy(input).replace("TOKEN", token);
    let (head, body) = text.split_once("\n\n").unwrap_or((&text, ""));
    let mut lines = head.lines();
    let (method, path) = lines.next()?.split_once(' ')?;
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        request = request.header(name, value);
    }
    request.body(Body::from(body.to_owned())).ok()
}

async fn answer(routes: &Router, request: Request<Body>) -> (u16, Value) {
    let response = routes.clone().oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
    (status, serde_json::from_slice(&body).unwrap_or_default())
}

#[test]
fn no_request_is_a_fault_of_the_coordinator() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    coordinator.join("old");
    let (_stop, stopped) = tokio::sync::watch::channel(false);
    let routes = api::routes(Arc::clone(&coordinator.state), stopped);
    let ask = |input: &[u8], of: &str| {
        let request = request(input, coordinator.operator_token())?;
        // The answer to HEAD has no body.
        let is_api = request.uri().path().starts_with("/api/") && request.method() != "HEAD";
        let (method, path) = (request.method().to_string(), request.uri().path().to_owned());
        let (status, body) = coordinator.wait(answer(&routes, request));
        assert!(status < 500, "{of}: {status} {body} for {:?}", String::from_utf8_lossy(input));
        let has_error = body["error"]["code"].is_string();
        if is_api {
            check_answer(&method, &path, status, &body);
        }
        assert!(!is_api || (body["schema"] == json!(1) && has_error == (status >= 400)), "{of}: {status} {body}");
        Some(status)
    };
    let (files, inputs): (Vec<_>, Vec<_>) = taut_fuzz::inputs("http").unwrap().into_iter().unzip();
    for seed in taut_fuzz::seeds("http") {
        assert!(inputs.contains(&seed), "run the example `seeds` of taut-fuzz");
    }
    let good = files.iter().zip(&inputs).filter_map(|(file, input)| ask(input, file)).filter(|status| *status < 300);
    assert!(good.count() >= 7, "the corpus itself is understood");
    let (run, many) = (taut_testkit::first(), taut_testkit::count(MUTATIONS.0, MUTATIONS.1));
    for (file, input) in files.iter().zip(&inputs) {
        for (number, input) in taut_fuzz::mutations(input, &inputs, run, many).enumerate() {
            ask(&input, &format!("mutation {number} of {file} (TAUT_SEED={run})"));
        }
    }
    assert_eq!(coordinator.ask("GET", "/healthz", None, None).0, 200);
}
