//! The packets that one side's applications sent, and which of them arrived.

use std::net::IpAddr;
use std::time::Duration;

use taut_base::Time;

use crate::packet;

/// The record of the packets in one direction. It panics on a delivered packet that was never sent, was delivered before, or was altered.
#[derive(Clone, Debug)]
pub struct Ledger {
    source: IpAddr,
    destination: IpAddr,
    sent: Vec<Time>,
    arrived: Vec<Option<Time>>,
    /// Arrival times, in the order of arrival.
    arrivals: Vec<Time>,
    flows: u16,
    /// The highest packet number that arrived, by flow.
    latest: Vec<Option<u64>>,
    overtaken: usize,
}

impl Ledger {
    /// Creates an empty ledger of packets from `source` to `destination`.
    pub fn new(source: IpAddr, destination: IpAddr) -> Self {
        Self {
            source,
            destination,
            sent: Vec::new(),
            arrived: Vec::new(),
            arrivals: Vec::new(),
            flows: 1,
            latest: vec![None],
            overtaken: 0,
        }
    }

    /// Sets the number of flows that packets take turns in. Call it before the first packet is sent.
    pub fn set_flows(&mut self, flows: u16) {
        self.flows = flows;
        self.latest = vec![None; flows.into()];
    }

    /// Records the next packet and returns it.
    pub fn send(&mut self, now: Time) -> Vec<u8> {
        let number = self.sent.len() as u64;
        self.sent.push(now);
        self.arrived.push(None);
        packet::write(number, self.source, self.destination, self.flows)
    }

    /// Records a delivered packet.
    pub fn deliver(&mut self, delivered: &[u8], now: Time) {
        let number = packet::number(delivered);
        let place = number.and_then(|number| usize::try_from(number).ok()).filter(|place| *place < self.sent.len());
        let (Some(number), Some(place)) = (number, place) else {
            unreachable!("a packet was delivered that was never sent: {delivered:02x?}");
        };
        assert_eq!(
            delivered,
            packet::write(number, self.source, self.destination, self.flows),
            "packet {number} was altered"
        );
        let first = self.arrived[place].replace(now);
        assert_eq!(first, None, "packet {number} was delivered twice");
        self.arrivals.push(now);
        if let Some(latest) = self.latest.get_mut(usize::from(packet::flow(number, self.flows))) {
            self.overtaken += usize::from(latest.is_some_and(|latest| number < latest));
            *latest = (*latest).max(Some(number));
        }
    }

    /// Returns the number of packets that arrived after a later packet of their flow.
    pub fn overtaken(&self) -> usize {
        self.overtaken
    }

    /// Returns the number of packets sent.
    pub fn sent(&self) -> usize {
        self.sent.len()
    }

    /// Returns the number of packets that arrived.
    pub fn arrived(&self) -> usize {
        self.arrivals.len()
    }

    /// Returns the arrival time of packet `number`, if it arrived.
    pub fn arrival(&self, number: usize) -> Option<Time> {
        self.arrived.get(number).copied().flatten()
    }

    /// Returns true if packet `number` or a later one has arrived.
    pub fn arrived_since(&self, number: usize) -> bool {
        self.arrived.get(number..).is_some_and(|later| later.iter().any(Option::is_some))
    }

    /// Returns true if a packet that was sent within the last `time` has arrived.
    pub fn arrived_of(&self, time: Duration, now: Time) -> bool {
        let lately = self.sent.iter().zip(&self.arrived).rev().take_while(|(sent, _)| now.since(**sent) < time);
        lately.into_iter().any(|(_, arrived)| arrived.is_some())
    }

    /// Returns the number of packets that were sent between `from` and `to` and have not arrived.
    pub fn missing(&self, from: Time, to: Time) -> usize {
        let of_that_time = self.sent.iter().zip(&self.arrived).filter(|(sent, _)| (from..to).contains(sent));
        of_that_time.filter(|(_, arrived)| arrived.is_none()).count()
    }

    /// Returns the longest time without an arrival between `from` and `to`.
    pub fn longest_silence(&self, from: Time, to: Time) -> Duration {
        let inside = self.arrivals.iter().copied().filter(|arrival| (from..to).contains(arrival));
        let mut last = from;
        let mut longest = Duration::ZERO;
        for arrival in inside.chain([to]) {
            longest = longest.max(arrival.since(last));
            last = arrival;
        }
        longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger() -> Ledger {
        Ledger::new([100, 64, 0, 1].into(), [100, 64, 0, 2].into())
    }

    #[test]
    fn knows_what_is_missing_and_how_long_it_was_quiet() {
        let mut ledger = ledger();
        let packets: Vec<_> = (0..4).map(|second| ledger.send(Time(second))).collect();
        ledger.deliver(&packets[0], Time(5));
        ledger.deliver(&packets[3], Time(9));
        assert_eq!((ledger.sent(), ledger.arrived(), ledger.arrival(3)), (4, 2, Some(Time(9))));
        assert_eq!(ledger.missing(Time(0), Time(4)), 2);
        assert_eq!(ledger.missing(Time(2), Time(4)), 1);
        assert_eq!(ledger.longest_silence(Time(4), Time(10)), Duration::from_nanos(4));
        assert_eq!(ledger.longest_silence(Time(4), Time(20)), Duration::from_nanos(11));
    }

    #[test]
    #[should_panic = "delivered twice"]
    fn notices_a_duplicate() {
        let mut ledger = ledger();
        let packet = ledger.send(Time(1));
        ledger.deliver(&packet, Time(2));
        ledger.deliver(&packet, Time(2));
    }

    #[test]
    #[should_panic = "never sent"]
    fn notices_an_invented_packet() {
        let (mut sender, mut other) = (ledger(), ledger());
        other.deliver(&sender.send(Time(1)), Time(2));
    }

    #[test]
    #[should_panic = "altered"]
    fn notices_bytes_behind_the_packet() {
        let mut ledger = ledger();
        let mut packet = ledger.send(Time(1));
        packet.push(0);
        ledger.deliver(&packet, Time(2));
    }
}
