//! Collects the errors of all settings, so that a user can correct a file with several wrong values in one go.

use super::CommandError;

/// The failures of reading several settings.
#[derive(Default)]
pub(in crate::cli) struct Faults(Vec<CommandError>);

impl Faults {
    /// Returns what was read, or notes why nothing was.
    pub(in crate::cli) fn keep<T>(&mut self, read: Result<T, CommandError>) -> Option<T> {
        read.map_err(|error| self.0.push(error)).ok()
    }

    /// Returns one failure with the lines of all, a usage error if one of them is; `Ok` if there is none.
    pub(in crate::cli) fn finish(self) -> Result<(), CommandError> {
        let is_usage = self.0.iter().any(|error| matches!(error, CommandError::Usage(_)));
        let mut lines: Vec<String> = Vec::new();
        for error in self.0 {
            let line = error.to_string();
            // A setting that several options depend on is reported once.
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
        match lines.is_empty() {
            true => Ok(()),
            false if is_usage => Err(CommandError::Usage(lines.join("\n"))),
            false => Err(CommandError::Run(lines.join("\n"))),
        }
    }
}
