//! The services that run a program now, which `taut update` restarts.

use std::fs;
use std::path::{Path, PathBuf};

use super::below;
use super::files::{files, other_networks};
use super::manager::Manager;
use crate::chosen;
use crate::fault::Fault;
use crate::flags::default_socket;

/// The services of a program that a service manager runs at the moment: the node's, and those of its other networks.
pub(crate) struct Running {
    manager: Option<Manager>,
    services: Vec<String>,
    sockets: Vec<PathBuf>,
}

impl Running {
    /// Finds them. A service that starts another program is left out.
    pub(crate) fn find(program: &Path) -> Self {
        let root = Path::new("/");
        let starts = |manager: &Manager| {
            let own = files(*manager, program).first().map(|file| below(root, file.path));
            let file = manager.packaged(root).filter(|_| own.as_ref().is_none_or(|own| !own.exists())).or(own);
            let text = file.and_then(|file| fs::read_to_string(file).ok()).unwrap_or_default();
            text.split(|letter: char| letter.is_whitespace() || "=\"".contains(letter))
                .any(|word| Path::new(word) == program)
        };
        let manager = Manager::find(root).filter(|manager| manager.runs() && starts(manager));
        let mut found = Self { manager, services: Vec::new(), sockets: Vec::new() };
        let Some(manager) = manager else { return found };
        let others = other_networks(manager, root);
        let mut add = |network: Option<&str>, socket| {
            let service = manager.service(network);
            if manager.is_active(&service) {
                found.services.push(service);
                found.sockets.push(socket);
            }
        };
        add(None, default_socket());
        for name in &others {
            add(Some(name), chosen::socket(name));
        }
        found
    }

    /// Restarts them.
    pub(crate) fn restart(&self) -> Result<(), Fault> {
        let Some(manager) = self.manager else { return Ok(()) };
        self.services.iter().try_for_each(|service| manager.restart(service))
    }

    /// Returns their names.
    pub(crate) fn services(&self) -> &[String] {
        &self.services
    }

    /// Returns the sockets on which their daemons answer.
    pub(crate) fn sockets(&self) -> &[PathBuf] {
        &self.sockets
    }
}
