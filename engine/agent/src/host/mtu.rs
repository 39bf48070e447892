//! The MTU of the device, and the `mtu` of routes, as the kernel has them.
//!
//! Another program may give the device an MTU of its own, and keeps it (fault J11): from then on only routes are changed, until the device has the MTU again that taut gave it last, or
//! the daemon is restarted.

use taut_base::{Prefix, SortedMap};

use super::{Host, HostEvent};

/// The device's MTU, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DeviceMtu {
    /// The MTU that taut set last.
    given: u16,
    /// The MTU that the kernel reported last.
    present: u16,
}

impl DeviceMtu {
    /// Returns the state of a device that was just given this MTU.
    pub(super) fn new(given: u16) -> Self {
        Self { given, present: given }
    }

    /// Takes what the kernel says. Returns the former MTU if another program has changed it since the last look.
    fn note(&mut self, present: u16) -> Option<u16> {
        let former = std::mem::replace(&mut self.present, present);
        (former != present && present != self.given).then_some(former)
    }

    /// Returns the MTU that the device should have, if taut would give it `wanted`.
    fn follow(self, wanted: u16) -> u16 {
        if self.present == self.given { wanted } else { self.present }
    }
}

impl Host {
    /// Returns the device's MTU, as it was at the last look.
    pub(crate) fn mtu(&self) -> u16 {
        self.device_mtu.present
    }

    /// Returns true if another program has given the device its MTU.
    pub(crate) fn has_foreign_mtu(&self) -> bool {
        self.device_mtu.present != self.device_mtu.given
    }

    /// Returns the MTU that the device should have: `wanted`, or what another program gave it.
    pub(crate) fn followed_mtu(&mut self, wanted: u16) -> u16 {
        // A device that is gone and an error have no MTU: what is known stays in force (law 6).
        if !self.attached {
            // The stack's MTU is fixed once it runs. Longer packets of peers reach it, and lanes cut what a path does not carry.
            return self.device_mtu.present;
        }
        if let Ok(Some(link)) = self.netlink.link_at(self.index) {
            self.note_mtu(link.mtu);
        }
        self.device_mtu.follow(wanted)
    }

    pub(super) fn note_mtu(&mut self, present: u32) {
        let present = u16::try_from(present).unwrap_or(u16::MAX);
        if let Some(former) = self.device_mtu.note(present) {
            self.note(HostEvent::MtuTaken(former, present));
        }
    }

    /// Gives the device this MTU, and these routes a smaller one. No packet meets a device whose MTU is too large for its route: the routes are lowered before
    /// the device rises, and rise after it.
    pub(crate) fn set_mtus(&mut self, device: u16, routes: SortedMap<Prefix, u16>) {
        if !self.attached {
            return;
        }
        self.mtus = routes;
        let present = self.device_mtu.present;
        if device > present {
            self.adjust_routes();
        }
        if device != present {
            match self.netlink.set_mtu(self.index, u32::from(device)) {
                Ok(()) => {
                    self.device_mtu = DeviceMtu::new(device);
                    self.note(HostEvent::Mtu(present, device));
                }
                Err(error) => self.note(HostEvent::MtuRefused(error.to_string())),
            }
        }
        if device <= present {
            self.adjust_routes();
        }
    }

    /// Gives all routes the `mtu` that they should have. What the kernel refuses is tried again at the next check.
    pub(super) fn adjust_routes(&mut self) {
        let wrong = |(prefix, mtu): (&Prefix, &Option<u16>)| {
            let wanted = self.mtus.get(prefix).copied();
            (wanted != *mtu).then_some((*prefix, wanted))
        };
        let changes: Vec<(Prefix, Option<u16>)> = self.routed.iter().filter_map(wrong).collect();
        for (prefix, mtu) in changes {
            if self.netlink.replace_route(&self.route(prefix)).is_ok() {
                self.routed.insert(prefix, mtu);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_j11_an_mtu_of_another_program_is_told_once_and_stays() {
        let mut mtu = DeviceMtu::new(1_420);
        assert_eq!((mtu.note(1_420), mtu.follow(1_440)), (None, 1_440));
        assert_eq!((mtu.note(1_300), mtu.follow(1_440)), (Some(1_420), 1_300));
        assert_eq!((mtu.note(1_300), mtu.follow(8_940)), (None, 1_300));
        assert_eq!((mtu.note(1_350), mtu.follow(8_940)), (Some(1_300), 1_350));
        assert_eq!((mtu.note(1_420), mtu.follow(8_940)), (None, 8_940), "it was given back");
    }
}
