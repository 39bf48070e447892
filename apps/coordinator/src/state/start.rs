//! Opening the state directory, and what happens the first time.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, OnceLock};

use taut_base::{Prefix, PrivateKey};
use taut_noise::public_key;
use zeroize::Zeroizing;

use super::arrivals::{Arrivals, CHANNELS};
use super::joins::Joins;
use super::keys::{self, Expiry};
use super::{Secret, State, StateError, first_tokens, networks, random, reserved, tickets};
use crate::clock::unix_now;
use crate::log;
use crate::store::{Party, Store, StoreError, prepare};

/// Row of the coordinator's private key.
const KEY: &str = "coordinator-key";

/// Row of the key that signs tickets for relays (an Ed25519 seed).
const TICKET_KEY: &str = "ticket-key";

/// Row of the private key of the coordinator's own relay.
const RELAY_KEY: &str = "relay-key";

/// File that a running `serve` holds locked.
const LOCK: &str = "lock";

/// What `serve` is given.
pub(crate) struct Options {
    /// The state directory.
    pub(crate) directory: PathBuf,
    /// Where nodes reach this coordinator; part of every join token.
    pub(crate) urls: Vec<String>,
    /// The first network's name; only the first start looks at it.
    pub(crate) network: String,
    /// The first network's IPv4 prefix; only the first start looks at it.
    pub(crate) ipv4: Prefix,
    /// How long tickets for relays are valid, in seconds.
    pub(crate) ticket_life: u32,
}

/// What the first start shows once and nobody can show again.
pub(crate) struct FirstStart {
    /// The operator's token.
    pub(crate) operator_token: String,
    /// A reusable join token for the first network.
    pub(crate) join_token: String,
    /// The state directory, in which a file has both.
    directory: PathBuf,
}

impl FirstStart {
    /// The lines that a terminal is shown.
    pub(crate) fn lines(&self) -> Zeroizing<String> {
        first_tokens::lines(&self.operator_token, &self.join_token)
    }

    /// The file that has the same lines.
    pub(crate) fn file(&self) -> PathBuf {
        first_tokens::path(&self.directory)
    }

    /// Deletes the file: the lines were shown to a person.
    pub(crate) fn forget_file(&self) -> io::Result<()> {
        first_tokens::remove(&self.directory)
    }
}

/// The file with the tokens of the first start, if nobody has deleted it yet.
pub(crate) fn kept_first_tokens(directory: &Path) -> Option<PathBuf> {
    Some(first_tokens::path(directory)).filter(|path| path.exists())
}

impl State {
    /// Opens the state directory; makes key, network and tokens if it is empty. All of that is one change: a start that is cut off
    /// in the middle is a first start again.
    pub(crate) async fn open(options: Options) -> Result<(Self, Option<FirstStart>), StartError> {
        prepare(&options.directory)?;
        let lock = lock(&options.directory)?;
        let store = Store::open(&options.directory).await?;
        warn_if_readable(&options.directory);
        let stored = store.read(Party::House).await?.meta(KEY).await?;
        let (key, first) = match stored {
            Some(bytes) => {
                let bytes = Zeroizing::new(bytes);
                let key = bytes.as_slice().try_into().map_err(|_| StoreError::Damaged("the coordinator's key"))?;
                (PrivateKey::from_bytes(key), None)
            }
            None => {
                let (key, first) = first_start(&store, &options).await?;
                (key, Some(first))
            }
        };
        let [ticket_key, relay_key] = [kept_key(&store, TICKET_KEY).await?, kept_key(&store, RELAY_KEY).await?];
        let signer = tickets::signer(*ticket_key.expose()).ok_or(StoreError::Damaged("the key that signs tickets"))?;
        reserved::rename(&store).await?;
        let known = store.read(Party::House).await?.networks().await?.iter().map(|network| network.id).collect();
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
            arrivals: Arrivals::new(CHANNELS),
            joins: Joins::new(),
            programs: Mutex::default(),
            relay: OnceLock::new(),
            _lock: lock,
        };
        Ok((state, first))
    }
}

/// A key of this coordinator's, made where there is none yet: at the first start, and at the first of a version that knows of it.
async fn kept_key(store: &Store, name: &'static str) -> Result<PrivateKey, StoreError> {
    if let Some(bytes) = store.read(Party::House).await?.meta(name).await? {
        let bytes = Zeroizing::new(bytes);
        let key = bytes.as_slice().try_into().map_err(|_| StoreError::Damaged(name))?;
        return Ok(PrivateKey::from_bytes(key));
    }
    let key = PrivateKey::from_bytes(random());
    let mut tx = store.write(Party::House).await?;
    tx.insert_meta(name, key.expose()).await?;
    tx.commit().await?;
    Ok(key)
}

async fn first_start(store: &Store, options: &Options) -> Result<(PrivateKey, FirstStart), StartError> {
    let key = PrivateKey::from_bytes(random());
    let operator = Secret::new();
    let now = unix_now();
    let mut tx = store.write(Party::House).await?;
    tx.insert_meta(KEY, key.expose()).await?;
    tx.insert_operator(&operator.hash(), now).await?;
    let network = networks::create(&mut tx, &options.network, options.ipv4, now).await?;
    let (_, secret) = keys::create(&mut tx, network.id, true, Expiry::Default, now).await?;
    let first = FirstStart {
        operator_token: operator.expose_operator_token(),
        join_token: keys::join_token(network.id, public_key(&key), &options.urls, &secret),
        directory: options.directory.clone(),
    };
    first_tokens::write(&options.directory, &first.lines()).map_err(|source| StartError::File(first.file(), source))?;
    tx.commit().await?;
    Ok((key, first))
}

/// Makes another operator's token for the coordinator in `directory`, beside a running one if need be: for whoever lost theirs and
/// can still read the state directory.
pub(crate) async fn new_operator_token(directory: &Path) -> Result<String, StartError> {
    if !directory.is_dir() {
        return Err(StartError::Empty(directory.to_path_buf()));
    }
    let store = Store::open(directory).await?;
    let operator = Secret::new();
    let mut tx = store.write(Party::House).await?;
    if tx.meta(KEY).await?.is_none() {
        return Err(StartError::Empty(directory.to_path_buf()));
    }
    tx.insert_operator(&operator.hash(), unix_now()).await?;
    tx.commit().await?;
    store.close().await;
    Ok(operator.expose_operator_token())
}

pub(super) fn lock(directory: &Path) -> Result<File, StartError> {
    let path = directory.join(LOCK);
    let failed = |source| StartError::Lock(path.clone(), source);
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StartError::Running(directory.to_path_buf())),
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}

/// A directory that was there already keeps its mode: it may be shared on purpose. The files in it are private anyway.
fn warn_if_readable(directory: &Path) {
    if std::fs::metadata(directory).is_ok_and(|metadata| metadata.mode() & 0o077 != 0) {
        let (directory, hint) = (directory.display(), "chmod 700");
        tracing::warn!(target: log::DAEMON, event = "state-directory-open-to-others", %directory, hint);
    }
}

/// Why the coordinator does not start.
#[derive(Debug)]
pub(crate) enum StartError {
    /// Another `serve` has the state directory.
    Running(PathBuf),
    /// The lock file cannot be used.
    Lock(PathBuf, io::Error),
    /// There is no coordinator in the directory.
    Empty(PathBuf),
    /// There is a coordinator in the directory that a backup should go to.
    Occupied(PathBuf),
    /// The file that a backup should become is there already.
    Exists(PathBuf),
    /// A file of a backup, or that of the first tokens, cannot be used.
    File(PathBuf, io::Error),
    /// What should be a backup is none, or damaged.
    Unsound(String),
    /// The rules refuse what the first start was told to make, or the database failed.
    State(StateError),
}

impl From<StateError> for StartError {
    fn from(error: StateError) -> Self {
        Self::State(error)
    }
}

impl From<StoreError> for StartError {
    fn from(error: StoreError) -> Self {
        Self::State(error.into())
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Running(path) => write!(
                f,
                "another coordinator is running on {}; two would give addresses twice; stop it first, or choose another --state",
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
                "there is no coordinator in {}; give the --state that `taut-coordinator serve` uses, or start that first",
                path.display()
            ),
            Self::Occupied(path) => write!(
                f,
                "there is a coordinator in {}; with --force it is replaced, and kept under another name",
                path.display()
            ),
            Self::Exists(path) => write!(f, "{} is there already; choose a name that is free", path.display()),
            Self::File(path, error) => {
                write!(f, "{} cannot be used: {error}; check the name, its owner and the disk", path.display())
            }
            Self::Unsound(why) => {
                write!(
                    f,
                    "the backup is none of a coordinator, or damaged: {why}; nothing was changed, use another one"
                )
            }
            Self::State(error) => write!(f, "{error}; {}", error.hint()),
        }
    }
}

impl Error for StartError {}
