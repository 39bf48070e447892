//! Hashing of passwords with Argon2id, which costs memory and time on purpose. Few hashes run at once and few wait, so that clients that try to sign in cannot use up
//! either (law 15).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use argon2::{Algorithm, Argon2, Params, PasswordHasher, PasswordVerifier, Version};
use tokio::sync::Semaphore;
use zeroize::Zeroizing;

use super::super::random;
use super::PeopleError;

/// Hashes that run at once, 2: two cores and 38 MiB.
const AT_ONCE: usize = 2;

/// Hashes that run or wait, 34: with those that run, the last of them is answered within a second or two.
const PLACES: usize = AT_ONCE + 32;

/// Places of one source, 4, so that one client cannot take all places.
const PLACES_PER_SOURCE: usize = 4;

/// Memory of a hash, 19 MiB in KiB, and passes over it: OWASP's recommendation for one lane.
const MEMORY: u32 = if cfg!(test) { 64 } else { 19 * 1024 };
const PASSES: u32 = if cfg!(test) { 1 } else { 2 };

/// Largest cost of a stored hash that is computed, in KiB of memory and passes: someone who can write the database must not be able to stop the coordinator.
const LARGEST: (u32, u32) = (256 * 1024, 16);

/// Shortest and longest password, in characters. A longer one than the maximum costs time before it is known to be wrong.
const LENGTHS: (usize, usize) = (10, 1_024);

/// A password. No `Debug`, wiped when dropped.
pub(crate) struct Password(Zeroizing<String>);

impl Password {
    pub(crate) fn new(text: String) -> Self {
        Self(Zeroizing::new(text))
    }
}

/// The hashes that run and wait.
pub(super) struct Passwords {
    running: Arc<Semaphore>,
    /// Places in use by source.
    places: Arc<Mutex<BTreeMap<[u8; 8], usize>>>,
    /// Hash that no password has, for accounts that do not exist: they take as long as others (fault E13).
    dummy: String,
}

/// A place among the hashes that run or wait.
struct Place {
    source: [u8; 8],
    places: Arc<Mutex<BTreeMap<[u8; 8], usize>>>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = places.get_mut(&self.source) {
            *count -= 1;
            if *count == 0 {
                places.remove(&self.source);
            }
        }
    }
}

impl Passwords {
    pub(super) fn new() -> Self {
        let dummy = hash(&Zeroizing::new(format!("{:032x}", u128::from_le_bytes(random())))).unwrap_or_default();
        Self { running: Arc::new(Semaphore::new(AT_ONCE)), places: Arc::default(), dummy }
    }

    /// Hashes a new password, after its check.
    pub(super) async fn hash(&self, password: Password, source: [u8; 8]) -> Result<String, PeopleError> {
        check(&password.0)?;
        let password = password.0;
        self.run(source, move || hash(&password)).await?.ok_or(PeopleError::Busy)
    }

    /// Returns true if a password has this hash. Without a hash it takes as long and returns false.
    pub(super) async fn verify(
        &self,
        password: Password,
        stored: Option<String>,
        source: [u8; 8],
    ) -> Result<bool, PeopleError> {
        let is_known = stored.as_deref().is_some_and(is_affordable);
        let stored = stored.filter(|_| is_known).unwrap_or_else(|| self.dummy.clone());
        let password = password.0;
        let is_equal = self
            .run(source, move || {
                let short = password.len() <= LENGTHS.1 * 4;
                // A password that is too long is not hashed; nobody has one.
                short && Argon2::default().verify_password(password.as_bytes(), stored.as_str()).is_ok()
            })
            .await?;
        Ok(is_equal && is_known)
    }

    /// Runs a hash on a thread of its own when its turn comes.
    async fn run<T: Send + 'static>(
        &self,
        source: [u8; 8],
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, PeopleError> {
        let place = self.place(source).ok_or(PeopleError::Busy)?;
        let turn = Arc::clone(&self.running).acquire_owned().await.map_err(|_| PeopleError::Busy)?;
        // The thread owns the place and the turn, so a client that disconnects does not release them before the work is done.
        let done = tokio::task::spawn_blocking(move || {
            let _held = (place, turn);
            work()
        });
        done.await.map_err(|_| PeopleError::Busy)
    }

    fn place(&self, source: [u8; 8]) -> Option<Place> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let taken: usize = places.values().sum();
        let own = places.get(&source).copied().unwrap_or(0);
        if taken >= PLACES || own >= PLACES_PER_SOURCE {
            return None;
        }
        places.insert(source, own + 1);
        Some(Place { source, places: Arc::clone(&self.places) })
    }
}

/// Checks a new password.
pub(super) fn check(password: &str) -> Result<(), PeopleError> {
    let length = password.chars().count();
    if length < LENGTHS.0 {
        return Err(PeopleError::BadPassword("it is too short"));
    }
    if length > LENGTHS.1 {
        return Err(PeopleError::BadPassword("it is too long"));
    }
    let mut letters: Vec<char> = password.chars().collect();
    letters.sort_unstable();
    letters.dedup();
    if letters.len() < 4 {
        return Err(PeopleError::BadPassword("it consists of fewer than four different characters"));
    }
    Ok(())
}

fn hash(password: &str) -> Option<String> {
    let params = Params::new(MEMORY, PASSES, 1, None).ok()?;
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    let hash = argon2.hash_password_with_salt(password.as_bytes(), &random::<16>()).ok()?;
    Some(hash.to_string())
}

/// Returns true if a stored hash is of Argon2id and costs no more than [`LARGEST`].
fn is_affordable(stored: &str) -> bool {
    let Some(rest) = stored.strip_prefix("$argon2id$v=19$") else { return false };
    let Some((params, _)) = rest.split_once('$') else { return false };
    let number =
        |name: &str| params.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('=')?.parse::<u32>().ok());
    let costs = (number("m"), number("t"), number("p"));
    matches!(costs, (Some(memory), Some(passes), Some(1)) if memory <= LARGEST.0 && passes <= LARGEST.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn password(text: &str) -> Password {
        Password::new(String::from(text))
    }

    #[tokio::test]
    async fn fault_e13_only_the_password_itself_has_its_hash() {
        let passwords = Passwords::new();
        let hash = passwords.hash(password("correct horse"), [0; 8]).await.unwrap();
        assert!(hash.starts_with("$argon2id$v=19$m="), "{hash}");
        assert_ne!(hash, passwords.hash(password("correct horse"), [0; 8]).await.unwrap(), "salted");
        let verify = async |text: &str, hash: Option<&str>| {
            passwords.verify(password(text), hash.map(String::from), [0; 8]).await.unwrap()
        };
        assert!(verify("correct horse", Some(&hash)).await);
        for wrong in ["correct hors", "correct horse ", ""] {
            assert!(!verify(wrong, Some(&hash)).await, "{wrong}");
        }
        assert!(!verify("correct horse", None).await);
        for damaged in ["", "x", "$argon2id$v=19$m=64,t=1,p=1$AAAA", "$argon2i$v=19$m=64,t=1,p=1$c2FsdHNhbHQ$AAAA"] {
            assert!(!verify("correct horse", Some(damaged)).await, "{damaged}");
        }
        let costly = hash.replacen("m=64,t=1", "m=4194304,t=1", 1);
        assert!(costly != hash && !is_affordable(&costly), "a hash that costs 4 GiB is not computed");
    }

    #[tokio::test]
    async fn fault_e13_one_source_cannot_take_all_places() {
        let passwords = Passwords::new();
        let of_one: Vec<_> = (0..PLACES_PER_SOURCE).map(|_| passwords.place([1; 8]).unwrap()).collect();
        assert!(passwords.place([1; 8]).is_none());
        let others: Vec<_> = (2..).map_while(|source| passwords.place([source; 8])).collect();
        assert_eq!(of_one.len() + others.len(), PLACES);
        assert_eq!(passwords.verify(password("x"), None, [9; 8]).await, Err(PeopleError::Busy), "a clear refusal");
        drop(of_one);
        assert!(passwords.verify(password("x"), None, [200; 8]).await.is_ok());
    }

    #[test]
    fn passwords_that_anyone_guesses_are_refused() {
        assert!(check("correct horse").is_ok() && check("ägyptische Ü").is_ok());
        for wrong in ["", "short", "123456789", "aaaaaaaaaaaa", "abababababab", &"x1y2".repeat(300)] {
            assert!(check(wrong).is_err(), "{wrong}");
        }
    }
}
