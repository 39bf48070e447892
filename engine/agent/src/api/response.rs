//! The responses of the daemon.

use serde::Serialize;

use super::{Failure, LogPart, Reach, SettingsStatus, Status, Why};

/// A response of the daemon. [`Self::read`] reads it from JSON.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum ApiResponse {
    /// The response to [`super::ApiRequest::Status`].
    Status(Box<Status>),
    /// The response to [`super::ApiRequest::Why`].
    Why(Box<Why>),
    /// The response to [`super::ApiRequest::Reach`].
    Reach(Box<Reach>),
    /// The response to [`super::ApiRequest::Metrics`].
    Metrics {
        /// Prometheus' text format.
        text: String,
    },
    /// To [`super::ApiRequest::Log`].
    Log(Box<LogPart>),
    /// To [`super::ApiRequest::Settings`] and [`super::ApiRequest::Set`].
    Settings(Box<SettingsStatus>),
    /// The request was carried out, or is in progress.
    Done,
    /// The request failed.
    Failed(Failure),
}

/// The kind of a response, the field `answer`.
#[derive(taut_json::Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Answer {
    Status,
    Why,
    Reach,
    Metrics,
    Log,
    Settings,
    Done,
    Failed,
}

impl ApiResponse {
    /// Reads a response: first its kind, then the rest as that kind needs it. Deriving this would keep the whole response in a tree of values, and have code for each type to read it
    /// from there, a fortieth of the program.
    ///
    /// # Errors
    /// If the line is no response that this version knows.
    pub fn read(line: &[u8]) -> Result<Self, taut_json::Error> {
        #[derive(taut_json::Deserialize)]
        struct Kind {
            answer: Answer,
        }
        #[derive(taut_json::Deserialize)]
        struct Metrics {
            text: String,
        }
        Ok(match taut_json::from_slice::<Kind>(line)?.answer {
            Answer::Status => Self::Status(taut_json::from_slice(line)?),
            Answer::Why => Self::Why(taut_json::from_slice(line)?),
            Answer::Reach => Self::Reach(taut_json::from_slice(line)?),
            Answer::Metrics => Self::Metrics { text: taut_json::from_slice::<Metrics>(line)?.text },
            Answer::Log => Self::Log(taut_json::from_slice(line)?),
            Answer::Settings => Self::Settings(taut_json::from_slice(line)?),
            Answer::Done => Self::Done,
            Answer::Failed => Self::Failed(taut_json::from_slice(line)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::SCHEMA;

    #[test]
    fn responses_are_read_as_they_were_written() {
        let failure = Failure::new("it failed", "try again");
        for response in [
            ApiResponse::Done,
            ApiResponse::Failed(failure),
            ApiResponse::Metrics { text: String::from("a 1\n") },
            ApiResponse::Settings(Box::new(SettingsStatus { schema: SCHEMA, settings: Vec::new(), saved: true })),
        ] {
            let text = serde_json::to_string(&response).unwrap();
            let read = ApiResponse::read(text.as_bytes()).unwrap();
            assert_eq!(serde_json::to_string(&read).unwrap(), text);
        }
        // The kind may come last, and fields of a later version are ignored.
        let last = ApiResponse::read(br#"{"later":[1],"text":"b","answer":"metrics"}"#);
        assert!(matches!(last, Ok(ApiResponse::Metrics { text }) if text == "b"));
        for bad in ["", "{}", r#"{"answer":"teleport"}"#, r#"{"answer":"metrics"}"#] {
            assert!(ApiResponse::read(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
