//! The program that has headscale's compiler and the packet filter of Tailscale's client: lab/compare/headscale/main.go.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde::{Deserialize, Serialize};
use taut_policy::NodeFacts;

use crate::case::{Answer, Case, Judged, Received};
use crate::left_out::compares_peers;

/// A running program. It gets one case per line, and answers each with a line.
pub(crate) struct Verdicts {
    child: Child,
    cases: ChildStdin,
    answers: BufReader<ChildStdout>,
}

#[derive(Serialize)]
struct Question<'a> {
    policy: &'a str,
    nodes: &'a [NodeFacts],
    packets: &'a [Received],
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Line {
    refused: String,
    verdicts: String,
    peers: Vec<Vec<usize>>,
}

impl Verdicts {
    /// Starts the program.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(crate) fn start(program: &Path) -> Result<Self, String> {
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", program.display());
        let mut command = Command::new(program);
        // One processor each: the caller runs as many programs as there are processors.
        command.env("GOMAXPROCS", "1").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| failed(&error))?;
        let cases = child.stdin.take().ok_or_else(|| failed(&"no standard input"))?;
        let answers = child.stdout.take().ok_or_else(|| failed(&"no standard output"))?;
        Ok(Self { child, cases, answers: BufReader::new(answers) })
    }

    /// Returns headscale's answer.
    ///
    /// # Errors
    /// If the program ended or answered something else.
    pub(crate) fn of(&mut self, case: &Case) -> Result<Answer, String> {
        let question = Question { policy: &case.policy(), nodes: &case.nodes, packets: &case.packets };
        let mut line = serde_json::to_string(&question).map_err(|error| error.to_string())?;
        line.push('\n');
        self.cases.write_all(line.as_bytes()).map_err(|error| format!("the program ended: {error}"))?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer).map_err(|error| error.to_string())?;
        let line: Line = serde_json::from_str(&answer).map_err(|error| format!("no answer: {error}"))?;
        if !line.refused.is_empty() {
            return Ok(Err(line.refused));
        }
        let verdicts = line.verdicts.chars().map(|verdict| verdict == '1').collect();
        Ok(Ok(Judged { verdicts, peers: if compares_peers(case) { line.peers } else { Vec::new() } }))
    }
}

impl Drop for Verdicts {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
