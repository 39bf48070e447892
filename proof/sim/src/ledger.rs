//! The packets that one side's applications sent, and which of them arrived.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use taut_base::Time;

use crate::packet::{self, LENGTHS};

/// The record of the packets in one direction. It panics on a delivered packet that was never sent, was delivered before, or was altered.
#[derive(Clone, Debug)]
pub struct Ledger {
    /// Source and destination.
    ends: [IpAddr; 2],
    sent: Vec<Time>,
    /// The flow of each packet.
    flow_of: Vec<u16>,
    arrived: Vec<Option<Time>>,
    /// Arrival times, in the order of arrival.
    arrivals: Vec<Time>,
    flows: u16,
    lengths: RangeInclusive<usize>,
    /// The highest packet number that arrived, by flow.
    latest: Vec<Option<u64>>,
    overtaken: usize,
}

impl Ledger {
    /// Creates an empty ledger of packets from `source` to `destination`.
    pub fn new(source: IpAddr, destination: IpAddr) -> Self {
        Self {
            ends: [source, destination],
            sent: Vec::new(),
            flow_of: Vec::new(),
            arrived: Vec::new(),
            arrivals: Vec::new(),
            flows: 1,
            lengths: LENGTHS,
            latest: vec![None],
            overtaken: 0,
        }
    }

    /// Sets the number of flows that packets take turns in. Call it before the first packet is sent.
    pub fn set_flows(&mut self, flows: u16) {
        self.flows = flows;
        self.latest = vec![None; flows.into()];
    }

    /// Sets the lengths of packets. Call it before the first packet is sent.
    pub fn set_lengths(&mut self, lengths: RangeInclusive<usize>) {
        self.lengths = lengths;
    }

    /// Records the next packet and returns it. Packets take turns in all flows.
    pub fn send(&mut self, now: Time) -> Vec<u8> {
        let flow = self.sent.len() as u64 % u64::from(self.flows.max(1));
        self.send_in(u16::try_from(flow).unwrap_or(0), now)
    }

    /// Records the next packet, of this flow, and returns it.
    pub fn send_in(&mut self, flow: u16, now: Time) -> Vec<u8> {
        assert!(flow < self.flows, "flow {flow} of {}", self.flows);
        let number = self.sent.len();
        self.sent.push(now);
        self.flow_of.push(flow);
        self.arrived.push(None);
        self.packet(number)
    }

    fn packet(&self, number: usize) -> Vec<u8> {
        let flow = self.flow_of.get(number).copied().filter(|_| self.flows > 1);
        packet::write(number as u64, self.ends, flow, &self.lengths)
    }

    /// Returns true if a delivered packet comes from the source of this ledger.
    pub fn is_from_source(&self, delivered: &[u8]) -> bool {
        packet::source(delivered) == Some(self.ends[0])
    }

    /// Records a delivered packet.
    pub fn deliver(&mut self, delivered: &[u8], now: Time) {
        let number = packet::number(delivered);
        let place = number.and_then(|number| usize::try_from(number).ok()).filter(|place| *place < self.sent.len());
        let (Some(number), Some(place)) = (number, place) else {
            unreachable!("a packet was delivered that was never sent: {delivered:02x?}");
        };
        assert_eq!(delivered, self.packet(place), "packet {number} was altered");
        let first = self.arrived[place].replace(now);
        assert_eq!(first, None, "packet {number} was delivered twice");
        self.arrivals.push(now);
        if let Some(latest) = self.latest.get_mut(usize::from(self.flow_of[place])) {
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
