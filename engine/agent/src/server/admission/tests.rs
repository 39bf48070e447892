use std::collections::BTreeMap;

use super::*;

const STEP: Duration = Duration::from_millis(1);

/// The admission under test, the token of the next connection, and the current time.
struct Table {
    admission: UserAdmission,
    next: u64,
    now: Time,
}

impl Table {
    fn new() -> Self {
        Self { admission: UserAdmission::default(), next: 100, now: Time::from_duration(Duration::from_secs(50)) }
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
    }

    /// Connects two turns after the previous connection. Returns the token, and the token of the evicted connection, if any.
    fn connect(&mut self, party: UserClass) -> Result<(u64, Option<u64>), LimitExceeded> {
        self.admission.next_turn();
        self.admission.next_turn();
        let token = self.next;
        self.next += 1;
        self.admission.admit(token, party, self.now).map(|evicted| (token, evicted))
    }

    fn connect_many(&mut self, party: UserClass, count: usize) -> Vec<u64> {
        (0..count).map(|_| self.connect(party).unwrap().0).collect()
    }

    fn count(&self, party: UserClass) -> usize {
        self.admission.count(party)
    }
}

#[test]
fn fault_p7_a_user_id_evicts_its_own_oldest_idle_connection() {
    let mut table = Table::new();
    let user = UserClass::User(1000);
    let tokens = table.connect_many(user, PER_USER);
    table.admission.ask(tokens[0], table.now);
    assert_eq!(table.connect(user).unwrap().1, Some(tokens[1]), "the first connection waits for its answer");
    assert_eq!(table.count(user), PER_USER);
    let asking: Vec<u64> = table.admission.admitted.iter().map(|seat| seat.token).collect();
    for token in asking {
        table.admission.ask(token, table.now);
    }
    assert_eq!(table.connect(user), Err(LimitExceeded), "a waiting request is not evicted for the same user");
    assert_eq!(table.connect(UserClass::User(1001)).unwrap().1, None);
}

#[test]
fn fault_p7_root_has_reserved_connections_and_the_user_with_the_most_is_evicted() {
    let mut table = Table::new();
    for user in 1..=3 {
        table.connect_many(UserClass::User(user), PER_USER);
    }
    table.connect_many(UserClass::User(4), 4);
    let poor = table.connect(UserClass::User(5)).unwrap();
    assert_eq!(poor.1, Some(100), "the longest unused connection of the three users with the most");
    for _ in 0..4 {
        assert_eq!(table.connect(UserClass::Trusted).unwrap().1, None, "a reserved connection");
    }
    for round in 5..=6 {
        assert!(table.connect(UserClass::Trusted).unwrap().1.is_some());
        assert_eq!(table.count(UserClass::Trusted), round);
        assert_eq!(table.count(UserClass::User(5)), 1);
    }
    assert_eq!(table.admission.admitted.len(), MAX_CONNECTIONS);
}

#[test]
fn fault_p7_waiting_requests_do_not_block_other_users() {
    let mut table = Table::new();
    for user in 1..=4 {
        for token in table.connect_many(UserClass::User(user), if user == 4 { 4 } else { PER_USER }) {
            table.admission.ask(token, table.now);
        }
    }
    assert_eq!(table.connect(UserClass::User(9)).unwrap().1, Some(100));
    assert!(table.connect(UserClass::Trusted).unwrap().1.is_none());
}

#[test]
fn a_trusted_connection_is_evicted_by_a_trusted_one_only() {
    let mut table = Table::new();
    table.connect_many(UserClass::Trusted, MAX_CONNECTIONS);
    assert_eq!(table.connect(UserClass::User(1)), Err(LimitExceeded));
    assert_eq!(table.connect(UserClass::Trusted).unwrap().1, Some(100));
    table.pass(Duration::from_secs(100_000));
    assert!(table.admission.expired(table.now).is_empty(), "a trusted connection has no timeout");
}

#[test]
fn a_new_connection_is_served_before_it_can_be_evicted() {
    let mut table = Table::new();
    let user = UserClass::User(1);
    for token in 0..PER_USER as u64 {
        assert_eq!(table.admission.admit(token, user, table.now), Ok(None));
    }
    table.admission.next_turn();
    assert_eq!(table.admission.admit(50, user, table.now), Err(LimitExceeded));
    table.admission.next_turn();
    assert_eq!(table.admission.admit(51, user, table.now), Ok(Some(0)));
}

#[test]
fn fault_p7_each_phase_has_its_timeout() {
    let mut table = Table::new();
    let token = table.connect(UserClass::User(1)).unwrap().0;
    let is_over = |table: &Table, token| table.admission.expired(table.now).contains(&token);
    table.pass(FIRST_REQUEST - STEP);
    table.admission.wait_for_rest(token, table.now);
    assert!(!is_over(&table, token));
    table.pass(STEP);
    assert!(is_over(&table, token), "parts of a request do not extend the timeout");

    let token = table.connect(UserClass::User(1)).unwrap().0;
    table.admission.ask(token, table.now);
    table.pass(FIRST_REQUEST * 10);
    assert!(!is_over(&table, token), "no timeout while the daemon owes an answer");
    table.admission.wait_for_reader(token, table.now);
    table.pass(TAKE_ANSWER - STEP);
    table.admission.wait_for_reader(token, table.now);
    table.pass(STEP);
    assert!(is_over(&table, token), "a slow reader gets no more time for each byte");

    let token = table.connect(UserClass::User(1)).unwrap().0;
    table.admission.ask(token, table.now);
    table.admission.wait(token, table.now);
    table.pass(NEXT_REQUEST - STEP);
    assert!(!is_over(&table, token));
    table.pass(STEP);
    assert!(is_over(&table, token));
}

/// Answers all admitted requests for one second, each at `cost`. The clients send the next request at once. Returns the number of answers per connection.
fn busy_second(table: &mut Table, tokens: &[u64], cost: Duration) -> BTreeMap<u64, u32> {
    let mut answers = BTreeMap::new();
    let end = table.now + Duration::from_secs(1);
    for token in tokens {
        table.admission.ask(*token, table.now);
    }
    while table.now < end {
        match table.admission.next(table.now) {
            Some((token, user)) => {
                *answers.entry(token).or_default() += 1;
                table.pass(cost);
                table.admission.charge(user, cost, table.now);
                table.admission.ask(token, table.now);
            }
            None => table.now = table.admission.poll_timeout().unwrap(),
        }
    }
    answers
}

#[test]
fn fault_p7_each_user_id_stays_within_its_share_for_any_number_of_connections() {
    let cost = Duration::from_millis(1);
    for users in [1_u32, 3, 10] {
        let mut table = Table::new();
        let tokens: Vec<u64> = (0..users).map(|user| table.connect(UserClass::User(user)).unwrap().0).collect();
        for _ in 0..3 {
            // The first second uses up the bursts.
            busy_second(&mut table, &tokens, cost);
        }
        let answers = busy_second(&mut table, &tokens, cost);
        let all: u32 = answers.values().sum();
        let each = answers.values().copied();
        assert!(all <= 200, "{all} ms of a second for {users} users");
        assert!(each.clone().max().unwrap() <= 50, "{answers:?}");
        assert!(each.min().unwrap() + 3 >= (190 / users).min(47), "{answers:?}");
    }
}

#[test]
fn fault_p7_a_user_id_that_asks_rarely_is_answered_first() {
    let mut table = Table::new();
    let greedy: Vec<u64> = (1..=6).flat_map(|user| table.connect_many(UserClass::User(user), 4)).collect();
    busy_second(&mut table, &greedy, Duration::from_millis(1));
    let honest = table.connect(UserClass::User(9)).unwrap().0;
    table.admission.ask(honest, table.now);
    loop {
        match table.admission.next(table.now) {
            Some((token, _)) => break assert_eq!(token, honest),
            None => table.now = table.admission.poll_timeout().unwrap(),
        }
    }
}

#[test]
fn fault_p7_one_answer_per_user_id_waits_to_be_read() {
    let mut table = Table::new();
    let (one, other) = (table.connect(UserClass::User(1)).unwrap().0, table.connect(UserClass::User(1)).unwrap().0);
    table.admission.ask(one, table.now);
    table.admission.ask(other, table.now);
    assert_eq!(table.admission.next(table.now), Some((one, 1)));
    table.admission.wait_for_reader(one, table.now);
    assert_eq!(table.admission.next(table.now), None);
    table.admission.wait(one, table.now);
    assert_eq!(table.admission.next(table.now), Some((other, 1)));
}

#[test]
fn the_number_of_remembered_user_ids_is_limited() {
    let mut table = Table::new();
    for user in 0..2_000 {
        let token = table.connect(UserClass::User(user)).unwrap().0;
        table.admission.charge(user, Duration::from_secs(1), table.now);
        table.admission.remove(token);
    }
    assert!(table.admission.paid.len() <= MAX_REMEMBERED + 1);
    table.pass(Duration::from_secs(60));
    table.connect(UserClass::Trusted).unwrap();
    assert!(table.admission.paid.is_empty());
}
