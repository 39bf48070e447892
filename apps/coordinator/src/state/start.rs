//! Opening the state directory, and the first start.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock};

use taut_base::{Prefix, PrivateKey};
use taut_noise::public_key;
use tokio::sync::watch;
use zeroize::Zeroizing;

use super::channel_rates::{CHANNELS, PartyRates};
use super::joins::Joins;
use super::keys::{self, Expiry};
use super::party::{Actor, Caller, Change, record};
use super::people::{self, People};
use super::policy_threads::PolicyThreads;
use super::relay_links::RelayLinks;
use super::requests::RequestRates;
use super::{Secret, State, StateError, first_tokens, networks, random, reserved, tickets};
use crate::clock::unix_now;
use crate::log;
use crate::oidc::Provider;
use crate::store::{FILE, Location, Party, Purpose, Reading, Store, StoreError, make_directory, open_private, prepare};
use crate::webhooks::Sender;

/// Row of the coordinator's private key.
pub(super) const KEY: &str = "coordinator-key";

/// Row of a coordinator that moved to another database: the time, in seconds since 1970.
pub(super) const MOVED: &str = "moved";

/// Row of the key that signs tickets for relays (an Ed25519 seed).
const TICKET_KEY: &str = "ticket-key";

/// Row of the private key of the coordinator's own relay.
const RELAY_KEY: &str = "relay-key";

/// File that a running `serve` holds locked.
const LOCK: &str = "lock";

/// Options of a start.
pub(crate) struct StartOptions {
    /// The state directory.
    pub(crate) directory: PathBuf,
    /// Where the database is.
    pub(crate) database: Location,
    /// URLs of this coordinator for nodes; part of every join token.
    pub(crate) urls: Vec<String>,
    /// Name of the first network; used by the first start only.
    pub(crate) network: String,
    /// IPv4 prefix of the first network; used by the first start only.
    pub(crate) ipv4: Prefix,
    /// Lifetime of relay tickets, in seconds.
    pub(crate) ticket_life: u32,
    /// Time for which entries of the audit log are kept, in days.
    pub(crate) audit_days: u32,
    /// The OpenID provider at which people can sign in.
    pub(crate) provider: Option<Arc<Provider>>,
    /// What sends to webhooks.
    pub(crate) sender: Sender,
}

/// The tokens of a first start, of which only hashes are stored.
pub(crate) struct FirstStart {
    /// The operator token.
    pub(crate) operator_token: String,
    /// A reusable join token for the first network.
    pub(crate) join_token: String,
    /// URL of the link with which the first owner sets the coordinator up.
    pub(crate) set_up: String,
    /// The state directory, where a file contains both tokens and the link.
    directory: PathBuf,
}

impl FirstStart {
    /// Returns the lines for a terminal.
    pub(crate) fn lines(&self) -> Zeroizing<String> {
        first_tokens::lines(&self.operator_token, &self.join_token, &self.set_up)
    }

    /// Returns the path of the file with the same lines.
    pub(crate) fn file(&self) -> PathBuf {
        first_tokens::path(&self.directory)
    }

    /// Deletes the file, because a terminal has shown the lines.
    pub(crate) fn forget_file(&self) -> io::Result<()> {
        first_tokens::remove(&self.directory)
    }
}

/// Returns the path of the file with the tokens of the first start, if the file still exists.
pub(crate) fn kept_first_tokens(directory: &Path) -> Option<PathBuf> {
    Some(first_tokens::path(directory)).filter(|path| path.exists())
}

impl State {
    /// Opens the state directory, whose lock, and that of the database in it, keep other coordinators out (fault N8). If it is empty, creates the key, a network and tokens in one transaction, so that after an interrupted first start the next
    /// one is a first start again.
    pub(crate) async fn open(options: StartOptions) -> Result<(Self, Option<FirstStart>), StateDirectoryError> {
        make_directory(&options.directory)?;
        let lock = lock(&options.directory)?;
        let database_lock = match &options.database {
            Location::Directory(directory) => Some(lock_database(directory)?),
            Location::Server(_) => None,
        };
        let store = Store::open(&options.database, Purpose::Serve).await?;
        warn_if_readable(&options.directory);
        expect_unmoved(&mut store.read(Party::Coordinator).await?).await?;
        let stored = store.read(Party::Coordinator).await?.meta(KEY).await?;
        let (key, first) = match stored {
            Some(bytes) => (own_key(bytes)?, None),
            None => first_start(&store, &options).await?,
        };
        let [ticket_key, relay_key] = [kept_key(&store, TICKET_KEY).await?, kept_key(&store, RELAY_KEY).await?];
        let signer = tickets::signer(*ticket_key.expose()).ok_or(StoreError::Damaged("the key that signs tickets"))?;
        reserved::rename(&store).await?;
        let known = store.read(Party::Coordinator).await?.networks().await?.iter().map(|network| network.id).collect();
        let state = Self {
            store,
            known: Mutex::new(known),
            signer,
            ticket_life: options.ticket_life,
            relay_key,
            public: public_key(&key),
            key,
            urls: options.urls,
            hubs: Mutex::new(BTreeMap::new()),
            seen: Mutex::default(),
            connections: AtomicU64::new(1),
            channel_rates: PartyRates::new(CHANNELS),
            joins: Joins::new(),
            request_rates: RequestRates::new(),
            policy_threads: PolicyThreads::new(),
            asked: watch::Sender::new(()),
            programs: Mutex::default(),
            relay: OnceLock::new(),
            relay_links: RelayLinks::default(),
            revoked: watch::Sender::new(0),
            sender: Arc::new(options.sender),
            people: People::new(i64::from(options.audit_days) * 24 * 3600, options.provider),
            figures: Arc::default(),
            moved: Arc::default(),
            presence_known: watch::Sender::new(false),
            unheard: Mutex::default(),
            untold: Mutex::default(),
            _locks: (lock, database_lock),
        };
        Ok((state, first))
    }
}

/// Returns an error for the database of a coordinator that moved to another one.
pub(super) async fn expect_unmoved(tx: &mut Reading) -> Result<(), StoreError> {
    if tx.meta(MOVED).await?.is_some() { Err(StoreError::Moved) } else { Ok(()) }
}

fn own_key(bytes: Vec<u8>) -> Result<PrivateKey, StoreError> {
    let bytes = Zeroizing::new(bytes);
    let key = bytes.as_slice().try_into().map_err(|_| StoreError::Damaged("the coordinator's key"))?;
    Ok(PrivateKey::from_bytes(key))
}

/// Returns a key of this coordinator. Creates it if it does not exist yet: at the first start, or at the first start of a release that needs it.
async fn kept_key(store: &Store, name: &'static str) -> Result<PrivateKey, StoreError> {
    if let Some(bytes) = store.read(Party::Coordinator).await?.meta(name).await? {
        let bytes = Zeroizing::new(bytes);
        let key = bytes.as_slice().try_into().map_err(|_| StoreError::Damaged(name))?;
        return Ok(PrivateKey::from_bytes(key));
    }
    let key = PrivateKey::from_bytes(random());
    let mut tx = store.write(Party::Coordinator).await?;
    if tx.meta(name).await?.is_none() {
        tx.insert_meta(name, key.expose()).await?;
        tx.commit().await?;
        return Ok(key);
    }
    drop(tx);
    // Another coordinator on the same database was faster.
    Box::pin(kept_key(store, name)).await
}

async fn first_start(
    store: &Store,
    options: &StartOptions,
) -> Result<(PrivateKey, Option<FirstStart>), StateDirectoryError> {
    let key = PrivateKey::from_bytes(random());
    let operator = Secret::new();
    let now = unix_now();
    let mut tx = store.write(Party::Coordinator).await?;
    if let Some(bytes) = tx.meta(KEY).await? {
        // Another coordinator on the same database was faster.
        return Ok((own_key(bytes)?, None));
    }
    tx.insert_meta(KEY, key.expose()).await?;
    tx.insert_operator(&operator.hash(), now).await?;
    let network = networks::create(&mut tx, &options.network, options.ipv4, now).await?;
    let (_, secret) = keys::create(&mut tx, network.id, true, Expiry::Default, now).await?;
    let set_up = people::insert_link(&mut tx, people::SET_UP, None, now).await?;
    let first = FirstStart {
        operator_token: operator.expose_operator_token(),
        join_token: keys::join_token(network.id, public_key(&key), &options.urls, &secret),
        set_up: people::link_url(&options.urls, people::SET_UP, &set_up),
        directory: options.directory.clone(),
    };
    first_tokens::write(&options.directory, &first.lines())
        .map_err(|source| StateDirectoryError::File(first.file(), source))?;
    tx.commit().await?;
    Ok((key, Some(first)))
}

/// Creates another operator token for the coordinator with this database, which may be running. For an operator who lost the token and can read the database.
pub(crate) async fn new_operator_token(database: &Location) -> Result<String, StateDirectoryError> {
    if let Location::Directory(directory) = database
        && !directory.is_dir()
    {
        return Err(StateDirectoryError::Empty(directory.clone()));
    }
    let store = Store::open(database, Purpose::Change).await?;
    let operator = Secret::new();
    let mut tx = store.write(Party::Coordinator).await?;
    if tx.meta(KEY).await?.is_none() {
        return Err(match database {
            Location::Directory(directory) => StateDirectoryError::Empty(directory.clone()),
            Location::Server(_) => StoreError::NoTables.into(),
        });
    }
    expect_unmoved(&mut tx).await?;
    tx.insert_operator(&operator.hash(), unix_now()).await?;
    let change =
        Change { network: None, action: "operator-token-created", object: String::new(), before: None, after: None };
    Box::pin(Caller::local(Actor::Command).scope(record(&mut tx, change))).await?;
    tx.commit().await?;
    store.close().await;
    Ok(operator.expose_operator_token())
}

/// Locks a state directory.
pub(super) fn lock(directory: &Path) -> Result<File, StateDirectoryError> {
    lock_file(directory, &directory.join(LOCK))
}

/// Locks the database in a directory: another directory may have the same file by a link. SQLite's own locks are of another kind (fcntl(2), and this is flock(2)), so
/// programs that make backups or tokens beside the coordinator do not notice.
pub(super) fn lock_database(directory: &Path) -> Result<File, StateDirectoryError> {
    prepare(directory)?;
    lock_file(directory, &directory.join(FILE))
}

fn lock_file(directory: &Path, path: &Path) -> Result<File, StateDirectoryError> {
    let failed = |source| StateDirectoryError::Lock(path.to_path_buf(), source);
    let file = open_private(directory, path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StateDirectoryError::Running(directory.to_path_buf())),
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}

/// Logs a warning if other users can read the state directory. Its mode is not changed, because it may be shared on purpose; the files in it are private.
fn warn_if_readable(directory: &Path) {
    if std::fs::metadata(directory).is_ok_and(|metadata| metadata.mode() & 0o077 != 0) {
        let directory = directory.display();
        let hint = format!("chmod 700 {directory}");
        tracing::warn!(target: log::DAEMON, event = "state-directory-open-to-others", %directory, hint = hint.as_str());
    }
}

/// The reason for which the state directory cannot be used.
#[derive(Debug)]
pub(crate) enum StateDirectoryError {
    /// Another `serve` uses the state directory.
    Running(PathBuf),
    /// The lock file cannot be used.
    Lock(PathBuf, io::Error),
    /// There is no coordinator in the directory.
    Empty(PathBuf),
    /// The target directory of a restore has a coordinator.
    Occupied(PathBuf),
    /// Another program has the database open that a restore would replace.
    Open(PathBuf),
    /// The target database of a migration has a coordinator.
    NotEmpty(String),
    /// The database that a migration begins with is damaged.
    Damaged(String),
    /// The target file of a backup exists already.
    Exists(PathBuf),
    /// A file of a backup, or the file of the first tokens, cannot be used.
    File(PathBuf, io::Error),
    /// The file is not a backup, or it is damaged.
    Unsound(String),
    /// The rules refuse an option of the first start, or the database failed.
    State(StateError),
}

impl From<StateError> for StateDirectoryError {
    fn from(error: StateError) -> Self {
        Self::State(error)
    }
}

impl From<StoreError> for StateDirectoryError {
    fn from(error: StoreError) -> Self {
        Self::State(error.into())
    }
}

impl fmt::Display for StateDirectoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Running(path) => write!(
                f,
                "another coordinator is running on {}; two would assign the same addresses to different nodes; stop the other one, or choose another --state",
                path.display()
            ),
            Self::Lock(path, error) => {
                write!(
                    f,
                    "the lock file {} cannot be used: {error}; check the directory's owner and disk",
                    path.display()
                )
            }
            Self::Empty(path) => write!(
                f,
                "there is no coordinator in {}; give the --state of `taut-coordinator serve`, or run `taut-coordinator serve` first",
                path.display()
            ),
            Self::Occupied(path) => {
                write!(f, "there is a coordinator in {}; --force replaces it, and renames its database", path.display())
            }
            Self::Open(path) => write!(
                f,
                "another program has the database in {} open, and would go on with the old one; stop it (a program that replicates the database, such as Litestream, or `sqlite3`), and run `restore` again",
                path.display()
            ),
            Self::NotEmpty(place) => {
                write!(f, "there is a coordinator in {place}; nothing was changed; name an empty database")
            }
            Self::Damaged(what) => write!(f, "the database is damaged: {what}; nothing was changed; repair it first"),
            Self::Exists(path) => write!(f, "{} exists already; choose another name", path.display()),
            Self::File(path, error) => {
                write!(f, "{} cannot be used: {error}; check the name, its owner and the disk", path.display())
            }
            Self::Unsound(why) => {
                write!(
                    f,
                    "the file is not a backup of a coordinator, or it is damaged: {why}; nothing was changed; use another backup"
                )
            }
            Self::State(error) => write!(f, "{error}; {}", error.hint()),
        }
    }
}

impl Error for StateDirectoryError {}
