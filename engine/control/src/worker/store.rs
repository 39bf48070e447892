//! The schedule of saves: most changes are saved at once, large maps less often. While the disk refuses, a save is retried every half minute.

use std::io;
use std::mem;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use taut_base::{PublicKey, SortedMap, Time};
use taut_dial::MAX_ADDRESSES;
use taut_netmap::{NetworkMap, Relay};

use super::Worker;
use crate::event::ControlEvent;
use crate::identity::Membership;
use crate::state::{LoadedState, SmallFile, StateDir, Ticket, write_addresses};

/// Time from a failed save to the next try, 30 s. The user is told once per try (fault K3).
const RETRY: Duration = Duration::from_secs(30);
/// Average number of bytes of maps written per second, 100,000, because the flash memory of routers wears out.
const MAP_BYTES_PER_SECOND: u64 = 100_000;
/// Most URLs whose addresses are kept, 16: a coordinator has one for each replica.
const MOST_URLS: usize = 16;
/// Burst allowance of [`MAP_BYTES_PER_SECOND`], the amount of 8 s: the changes that follow a start or a join are written without delay.
const MAP_BURST: Duration = Duration::from_secs(8);

/// The state directory, and the state that is not saved yet.
pub(super) struct Store {
    state: StateDir,
    notes: Vec<String>,
    /// True if a save failed and state is still unsaved.
    failing: bool,
    /// The time of the membership's next save, if the saved copy is outdated.
    membership_due: Option<Time>,
    /// The time of the map's next save, if the saved copy is outdated.
    map_due: Option<Time>,
    /// The time until which the maps saved so far use up [`MAP_BYTES_PER_SECOND`].
    map_paid: Time,
    /// The peers that have a session now.
    recent: Vec<PublicKey>,
    /// The map's relays as the coordinator named them.
    named: Vec<Relay>,
    /// The ticket for the network's relays.
    ticket: Option<Ticket>,
    /// The time of the ticket's next save, if the saved copy is outdated.
    ticket_due: Option<Time>,
    /// The first stamp of the next run's initiations.
    ceiling: Option<Duration>,
    /// The time of the next save of `ceiling`, if the saved copy is outdated.
    ceiling_due: Option<Time>,
    /// What `taut set` keeps, with the time of its next save; `None` once it is saved.
    settings: Option<(String, Time)>,
    /// Small files that are not saved yet, with the time of their next save.
    small: SortedMap<SmallFile, (String, Time)>,
    /// The addresses of coordinators, by URL, at the last connections.
    known: SortedMap<String, Vec<IpAddr>>,
    /// True if they were saved since [`Store::take_settings_saved`].
    settings_saved: bool,
}

impl Store {
    /// Creates the store. Takes from `found` everything except the membership and the map.
    pub(super) fn new(state: StateDir, found: &mut LoadedState) -> Self {
        Self {
            state,
            notes: mem::take(&mut found.notes),
            failing: false,
            membership_due: None,
            map_due: None,
            map_paid: Time::ZERO,
            recent: mem::take(&mut found.recent),
            named: mem::take(&mut found.named),
            ticket: found.ticket.take(),
            ticket_due: None,
            ceiling: found.ceiling,
            ceiling_due: None,
            settings: None,
            small: SortedMap::new(),
            known: mem::take(&mut found.known),
            settings_saved: false,
        }
    }

    pub(super) fn ceiling(&self) -> Option<Duration> {
        self.ceiling
    }

    pub(super) fn ceiling_changed(&mut self, ceiling: Duration, now: Time) {
        self.ceiling = Some(ceiling);
        self.ceiling_due = Some(now);
    }

    pub(super) fn settings_changed(&mut self, settings: String, now: Time) {
        self.settings = Some((settings, now));
    }

    /// Sets the device whose kill switch is loaded at the next boot; an empty text for none.
    pub(super) fn kill_switch_changed(&mut self, device: String, now: Time) {
        self.small.insert(SmallFile::KillSwitch, (device, now));
    }

    /// Returns the addresses that the host of this URL had at the last connection.
    pub(super) fn known(&self, url: &str) -> Vec<IpAddr> {
        self.known.get(url).cloned().unwrap_or_default()
    }

    /// Keeps the addresses of a coordinator that has shown its key, for a time when its name cannot be resolved (fault H7).
    pub(super) fn addresses_changed(&mut self, url: &str, addresses: &[IpAddr], now: Time) {
        // A name server gives them in another order each time, which is no news.
        let mut addresses = addresses.to_vec();
        addresses.sort_unstable();
        addresses.dedup();
        addresses.truncate(MAX_ADDRESSES);
        if self.known.get(url).is_some_and(|known| *known == addresses) {
            return;
        }
        // A coordinator names a few URLs.
        if self.known.len() >= MOST_URLS {
            self.known.clear();
        }
        self.known.insert(String::from(url), addresses);
        self.small.insert(SmallFile::Addresses, (write_addresses(&self.known), now));
    }

    /// Returns true if what `taut set` keeps was saved since the last call, and nothing newer waits.
    fn take_settings_saved(&mut self) -> bool {
        mem::take(&mut self.settings_saved) && self.settings.is_none()
    }

    pub(super) fn ticket(&self) -> Option<&Ticket> {
        self.ticket.as_ref()
    }

    /// Replaces the ticket. `None` removes the ticket of another network.
    pub(super) fn ticket_changed(&mut self, ticket: Option<Ticket>, now: Time) {
        self.ticket_due = ticket.is_some().then_some(now);
        self.ticket = ticket;
    }

    pub(super) fn named(&self) -> &[Relay] {
        &self.named
    }

    /// Sets the map's relays as the coordinator named them. The next save of the map includes them.
    pub(super) fn set_named(&mut self, named: Vec<Relay>) {
        self.named = named;
    }

    pub(super) fn recent(&self) -> &[PublicKey] {
        &self.recent
    }

    pub(super) fn recent_changed(&mut self, recent: Vec<PublicKey>, now: Time) {
        if self.recent != recent {
            self.recent = recent;
            self.map_changed(now);
        }
    }

    pub(super) fn take_notes(&mut self) -> Vec<String> {
        mem::take(&mut self.notes)
    }

    pub(super) fn path(&self) -> &Path {
        self.state.path()
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        let settings_due = self.settings.as_ref().map(|(_, due)| *due);
        let small_due = self.small.values().map(|(_, due)| *due).min();
        let due = [self.membership_due, self.map_due, self.ticket_due, self.ceiling_due, settings_due, small_due];
        due.into_iter().flatten().min()
    }

    pub(super) fn membership_changed(&mut self, now: Time) {
        self.membership_due = Some(now);
    }

    pub(super) fn map_changed(&mut self, now: Time) {
        if self.map_due.is_none() {
            self.map_due = Some(now + self.map_paid.since(now).saturating_sub(MAP_BURST));
        }
    }

    /// Saves the membership now.
    pub(super) fn save_membership(&mut self, membership: &Membership) -> io::Result<()> {
        self.state.save_membership(membership)?;
        self.membership_due = None;
        Ok(())
    }

    /// Saves the decision to give up the membership. No later start finds a membership.
    pub(super) fn begin_leave(&mut self) -> io::Result<()> {
        self.state.begin_leave()
    }

    /// Removes the keys and everything else of the membership, from the disk and from memory.
    pub(super) fn finish_leave(&mut self) -> io::Result<()> {
        (self.membership_due, self.map_due, self.ticket_due, self.ceiling_due) = (None, None, None, None);
        (self.recent, self.named) = (Vec::new(), Vec::new());
        (self.ticket, self.ceiling) = (None, None);
        self.state.finish_leave()
    }

    /// Saves everything that is due. Returns one message for the user per failed save.
    fn save_due(&mut self, membership: Option<&Membership>, map: Option<&NetworkMap>, now: Time) -> Vec<String> {
        let mut problems = self.save_settings(now);
        problems.extend(self.save_small(now));
        let Some(membership) = membership else { return problems };
        if self.membership_due.is_some_and(|due| due <= now)
            && let Err(error) = self.save_membership(membership)
        {
            self.membership_due = Some(now + RETRY);
            problems.push(self.explain(&error));
        }
        if self.ceiling_due.is_some_and(|due| due <= now) {
            self.ceiling_due = None;
            if let Some(Err(error)) = self.ceiling.map(|ceiling| self.state.save_ceiling(ceiling)) {
                self.ceiling_due = Some(now + RETRY);
                problems.push(self.explain(&error));
            }
        }
        if self.ticket_due.is_some_and(|due| due <= now) {
            self.ticket_due = None;
            if let Some(Err(error)) = self.ticket.as_ref().map(|ticket| self.state.save_ticket(ticket)) {
                self.ticket_due = Some(now + RETRY);
                problems.push(self.explain(&error));
            }
        }
        let Some(map) = map else { return problems };
        if self.map_due.is_some_and(|due| due <= now) {
            match self.state.save_map(membership.network, map, &self.named, &self.recent) {
                Ok(bytes) => {
                    self.map_due = None;
                    self.map_paid =
                        self.map_paid.max(now) + Duration::from_secs(1 + bytes as u64 / MAP_BYTES_PER_SECOND);
                }
                Err(error) => {
                    self.map_due = Some(now + RETRY);
                    problems.push(self.explain(&error));
                }
            }
        }
        problems
    }

    /// Saves what `taut set` keeps, if it is due.
    fn save_settings(&mut self, now: Time) -> Vec<String> {
        let Some((settings, _)) = self.settings.take_if(|(_, due)| *due <= now) else { return Vec::new() };
        let Err(error) = self.state.save_settings(&settings) else {
            self.settings_saved = true;
            return Vec::new();
        };
        self.settings = Some((settings, now + RETRY));
        vec![self.explain(&error)]
    }

    /// Saves the small files that are due.
    fn save_small(&mut self, now: Time) -> Vec<String> {
        let due: Vec<SmallFile> =
            self.small.iter().filter(|(_, (_, due))| *due <= now).map(|(file, _)| *file).collect();
        let mut problems = Vec::new();
        for file in due {
            let Some((text, _)) = self.small.remove(&file) else { continue };
            if let Err(error) = self.state.save_small(file, &text) {
                problems.push(self.explain(&error));
                self.small.insert(file, (text, now + RETRY));
            }
        }
        problems
    }

    /// Returns true if all state is saved again after saves that failed. `failed`: true if a save failed just now.
    fn works_again(&mut self, failed: bool) -> bool {
        let was_failing = self.failing;
        self.failing = failed || was_failing && self.deadline().is_some();
        was_failing && !self.failing
    }

    /// Saves all unsaved state, due or not. Returns one message for the user per failed save.
    pub(super) fn save_everything(
        &mut self,
        membership: Option<&Membership>,
        map: Option<&NetworkMap>,
        now: Time,
    ) -> Vec<String> {
        self.membership_due = self.membership_due.map(|_| now);
        self.map_due = self.map_due.map(|_| now);
        self.ceiling_due = self.ceiling_due.map(|_| now);
        self.ticket_due = self.ticket_due.map(|_| now);
        self.settings = self.settings.take().map(|(settings, _)| (settings, now));
        self.small.values_mut().for_each(|(_, due)| *due = now);
        self.save_due(membership, map, now)
    }

    /// Returns the event of a failed save that a command needs: `undone` says what was not done. It promises nothing about the disk, which may have the state and fail afterwards.
    pub(super) fn not_saved(&self, error: &io::Error, undone: &str) -> ControlEvent {
        let message = format!("the state in {} cannot be saved: {error}; {undone}", self.state.path().display());
        ControlEvent::NotSaved { message, kind: error.kind() }
    }

    /// Returns the message for the user about a failed save.
    pub(super) fn explain(&self, error: &io::Error) -> String {
        format!("the state in {} cannot be saved: {error}; free or repair the disk", self.state.path().display())
    }
}

impl Worker {
    pub(super) fn save_what_is_due(&mut self, now: Time) {
        let problems = self.store.save_due(self.membership.as_ref(), self.map.as_deref(), now);
        self.report_disk(problems);
    }

    pub(super) fn report_disk(&mut self, problems: Vec<String>) {
        if self.store.take_settings_saved() {
            self.emit(ControlEvent::SettingsSaved);
        }
        if self.store.works_again(!problems.is_empty()) {
            self.emit(ControlEvent::DiskWorks);
        }
        for problem in problems {
            self.emit(ControlEvent::DiskProblem(problem));
        }
    }
}

#[cfg(test)]
mod tests;
