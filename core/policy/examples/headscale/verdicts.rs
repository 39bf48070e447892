//! The program that has headscale's compiler and the packet filter of Tailscale's client: lab/compare/headscale/main.go.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use taut_policy::NodeFacts;

use crate::case::{Answer, Case, Judged};
use crate::packets::Received;

/// A running program. It gets one case per line, and answers each with a line.
pub(crate) struct Verdicts {
    child: Child,
    cases: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// A case as the program reads it.
#[derive(Serialize)]
pub(crate) struct Question<'a> {
    pub(crate) policy: &'a str,
    pub(crate) nodes: &'a [NodeFacts],
    pub(crate) packets: &'a [Received],
    /// The rules of each node, which are applied instead of compiling the policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rules: Option<&'a [Value]>,
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
        let policy = &case.policy();
        let answer = self.ask(&Question { policy, nodes: &case.nodes, packets: &case.packets, rules: None })?;
        Ok(answer.map(|answer| case.compared(answer)))
    }

    /// Returns the program's answer to a question.
    ///
    /// # Errors
    /// If the program ended or answered something else.
    pub(crate) fn ask(&mut self, question: &Question<'_>) -> Result<Answer, String> {
        let mut line = serde_json::to_string(question).map_err(|error| error.to_string())?;
        line.push('\n');
        self.cases.write_all(line.as_bytes()).map_err(|error| format!("the program ended: {error}"))?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer).map_err(|error| error.to_string())?;
        let line: Line = serde_json::from_str(&answer).map_err(|error| format!("no answer: {error}"))?;
        if !line.refused.is_empty() {
            return Ok(Err(line.refused));
        }
        if line.verdicts.len() != question.packets.len() {
            return Err(format!("{} verdicts on {} packets", line.verdicts.len(), question.packets.len()));
        }
        let verdicts = line.verdicts.chars().map(|verdict| verdict == '1').collect();
        Ok(Ok(Judged { verdicts, peers: line.peers }))
    }
}

impl Drop for Verdicts {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
