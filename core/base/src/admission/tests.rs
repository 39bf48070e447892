use super::*;

const WIDE: Bounds = Bounds { host: 100, group: 100 };

fn table(all: usize) -> Admission<u8, u8> {
    Admission::new(all, WhenFull::Displace)
}

#[test]
fn fault_f13_a_host_at_its_limit_displaces_its_own_oldest_place() {
    let mut table = table(100);
    let bounds = Bounds { host: 3, group: 50 };
    for number in 0..3 {
        assert_eq!(table.enter(number, 1, 1, bounds), Ok(None));
    }
    assert_eq!(table.enter(3, 1, 2, bounds), Ok(None), "another host of the group");
    assert_eq!(table.enter(4, 1, 1, bounds), Ok(Some(0)));
    table.set_idle(1, false);
    assert_eq!(table.enter(5, 1, 1, bounds), Ok(Some(2)), "a place that is not idle stays");
    assert_eq!(table.len(), 4);
}

#[test]
fn fault_f13_a_group_at_its_limit_displaces_its_greediest_host() {
    let mut table = table(100);
    let bounds = Bounds { host: 3, group: 5 };
    for number in 0..4 {
        table.enter(number, 1, u8::from(number != 0), bounds).unwrap();
    }
    table.enter(4, 1, 2, bounds).unwrap();
    assert_eq!(table.enter(5, 1, 3, bounds), Ok(Some(1)), "host 1 has three, and this is its oldest");
    assert_eq!(table.enter(6, 2, 1, bounds), Ok(None), "another group");
}

#[test]
fn fault_f13_a_full_table_takes_from_the_greediest_and_then_from_the_oldest() {
    let mut table = table(4);
    table.enter(0, 1, 1, WIDE).unwrap();
    for number in 1..4 {
        table.enter(number, 2, 2, WIDE).unwrap();
    }
    assert_eq!(table.enter(4, 3, 3, WIDE), Ok(Some(1)));
    assert_eq!(table.enter(5, 4, 4, WIDE), Ok(Some(2)));
    // Each has one place by now: the one that is there for longest makes room, whatever its key is.
    assert_eq!(table.enter(6, 5, 5, WIDE), Ok(Some(0)));
    assert_eq!(table.enter(7, 0, 0, WIDE), Ok(Some(3)));
}

#[test]
fn where_nobody_is_idle_a_newcomer_is_refused_and_gets_in_once_somebody_leaves() {
    let mut table = table(2);
    for number in 0..2 {
        table.enter(number, 1, 1, WIDE).unwrap();
        table.set_idle(number, false);
    }
    assert_eq!(table.enter(2, 2, 2, WIDE), Err(AdmissionDenied));
    assert!(table.remove(0) && !table.remove(0));
    assert_eq!(table.enter(3, 2, 2, WIDE), Ok(None));
    assert_eq!(table.enter(4, 2, 3, Bounds { host: 0, group: 0 }), Err(AdmissionDenied));
}

#[test]
fn parties_that_stay_are_displaced_only_where_that_evens_out() {
    let mut table: Admission<u8, u8> = Admission::new(6, WhenFull::Balance);
    for number in 0..6 {
        table.enter(number, 1, 1, WIDE).unwrap();
    }
    assert_eq!(table.enter(6, 1, 2, WIDE), Err(AdmissionDenied), "its own group has all");
    assert_eq!(table.enter(7, 2, 1, WIDE), Ok(Some(0)));
    assert_eq!(table.enter(8, 2, 2, WIDE), Ok(Some(1)));
    assert_eq!(table.enter(9, 2, 3, WIDE), Ok(Some(2)), "four against two becomes three against three");
    assert_eq!(table.enter(10, 2, 4, WIDE), Err(AdmissionDenied));
    assert_eq!(table.enter(11, 1, 4, WIDE), Err(AdmissionDenied));
    assert_eq!(table.enter(12, 3, 1, WIDE), Ok(Some(3)));
    assert_eq!(table.enter(13, 3, 1, WIDE), Ok(Some(12)), "a host that comes again gives up the place that it had");
}

#[test]
fn fault_e19_a_place_is_counted_for_another_party_once_it_is_known() {
    let mut table = table(10);
    let (proxy, client) = (Bounds { host: 8, group: 8 }, Bounds { host: 2, group: 4 });
    for number in 0..4 {
        table.enter(number, 0, 0, proxy).unwrap();
    }
    assert_eq!(table.assign(0, 1, 1, client), Ok(None));
    assert_eq!(table.assign(1, 1, 1, client), Ok(None));
    assert_eq!(table.assign(2, 1, 1, client), Ok(Some(0)), "the client's own, not the proxy's");
    assert_eq!(table.assign(1, 1, 1, client), Ok(None), "the same again displaces nothing");
    table.set_idle(1, false);
    table.set_idle(2, false);
    assert_eq!(table.assign(3, 1, 1, client), Err(AdmissionDenied));
    assert_eq!((table.len(), table.assign(3, 1, 2, client)), (2, Err(AdmissionDenied)), "the place is free");
}

/// The same rules, counted from scratch for each question.
#[derive(Default)]
struct Slow(Vec<(u64, u8, u8, bool)>);

impl Slow {
    fn greediest(
        &self,
        key: impl Fn(&(u64, u8, u8, bool)) -> u8,
        of: impl Fn(&(u64, u8, u8, bool)) -> bool,
    ) -> Option<u8> {
        let idle: Vec<_> = self.0.iter().filter(|place| place.3 && of(place)).collect();
        let weight = |wanted: u8| {
            let same = idle.iter().filter(|place| key(place) == wanted);
            (same.clone().count(), Reverse(same.map(|place| place.0).min()))
        };
        idle.iter().map(|place| key(place)).max_by_key(|wanted| weight(*wanted))
    }

    fn oldest(&self, group: u8, host: Option<u8>) -> Option<u64> {
        let host = host.or_else(|| self.greediest(|place| place.2, |place| place.1 == group));
        self.0.iter().filter(|place| place.3 && place.1 == group && Some(place.2) == host).map(|place| place.0).min()
    }

    fn room_for(&self, all: usize, group: u8, host: u8, bounds: Bounds) -> Result<Option<u64>, AdmissionDenied> {
        let of_group = self.0.iter().filter(|place| place.1 == group).count();
        let of_host = self.0.iter().filter(|place| place.1 == group && place.2 == host).count();
        let found = if of_host >= bounds.host {
            self.oldest(group, Some(host))
        } else if of_group >= bounds.group {
            self.oldest(group, None)
        } else if self.0.len() >= all {
            self.greediest(|place| place.1, |_| true).and_then(|group| self.oldest(group, None))
        } else {
            return Ok(None);
        };
        found.map(Some).ok_or(AdmissionDenied)
    }
}

#[test]
fn it_decides_as_a_slow_table_does() {
    let (all, bounds) = (12, Bounds { host: 3, group: 6 });
    let (mut table, mut slow) = (table(all), Slow::default());
    let mut dice = 7_u64;
    let mut draw = |below: u64| {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (dice >> 33) % below
    };
    for number in 0..20_000_u64 {
        let (group, host) = (draw(4) as u8, draw(4) as u8);
        let other = draw(20_000).max(number.saturating_sub(20)).min(number);
        match draw(4) {
            0 | 1 => {
                let expected = slow.room_for(all, group, host, bounds);
                assert_eq!(table.enter(number, group, host, bounds), expected);
                if let Ok(displaced) = expected {
                    slow.0.retain(|place| Some(place.0) != displaced);
                    slow.0.push((number, group, host, true));
                }
            }
            2 => {
                assert_eq!(table.remove(other), slow.0.iter().any(|place| place.0 == other));
                slow.0.retain(|place| place.0 != other);
            }
            _ => {
                let is_idle = draw(2) == 0;
                table.set_idle(other, is_idle);
                slow.0.iter_mut().filter(|place| place.0 == other).for_each(|place| place.3 = is_idle);
            }
        }
        assert_eq!(table.len(), slow.0.len());
    }
    for place in slow.0 {
        assert!(table.remove(place.0));
    }
    assert!(table.is_empty() && table.groups.is_empty() && table.ranks.is_empty());
}
