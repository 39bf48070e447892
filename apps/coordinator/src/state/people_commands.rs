//! Changes of people and tokens by commands that open the database themselves. The coordinator may be running.

use super::party::{Actor, Caller, Change, record};
use super::people::{self, create_token};
use super::start::{KEY, StateDirectoryError, expect_unmoved};
use crate::clock::unix_now;
use crate::store::{Location, Party, Purpose, Store, StoreError, Writing};

/// Makes a new set-up link for the coordinator with this database. Earlier ones end. `base` is the coordinator's URL.
pub(crate) async fn new_set_up_link(database: &Location, base: &str) -> Result<String, StateDirectoryError> {
    let (store, mut tx) = open(database).await?;
    let secret = people::insert_link(&mut tx, people::SET_UP, None, unix_now()).await?;
    let action = "set-up-link-created";
    let change = Change { network: None, action, object: String::new(), before: None, after: None };
    Box::pin(Caller::local(Actor::Command).scope(record(&mut tx, change))).await?;
    tx.commit().await?;
    store.close().await;
    Ok(people::link_url(&[String::from(base)], people::SET_UP, &secret))
}

/// Creates a token of the operator for the coordinator with this database. `life` is in seconds.
pub(crate) async fn new_api_token(
    database: &Location,
    name: &str,
    scopes: &str,
    life: Option<i64>,
) -> Result<String, StateDirectoryError> {
    let (store, mut tx) = open(database).await?;
    let created = Caller::local(Actor::Command).scope(create_token(&mut tx, None, name, scopes, life));
    let (_, text) = Box::pin(created).await?;
    tx.commit().await?;
    store.close().await;
    Ok(text)
}

/// Begins a change of the coordinator in this database.
async fn open(database: &Location) -> Result<(Store, Writing), StateDirectoryError> {
    if let Location::Directory(directory) = database
        && !directory.is_dir()
    {
        return Err(StateDirectoryError::Empty(directory.clone()));
    }
    let store = Store::open(database, Purpose::Change).await?;
    let mut tx = store.write(Party::Coordinator).await?;
    if tx.meta(KEY).await?.is_none() {
        return Err(match database {
            Location::Directory(directory) => StateDirectoryError::Empty(directory.clone()),
            Location::Server(_) => StoreError::NoTables.into(),
        });
    }
    expect_unmoved(&mut tx).await?;
    Ok((store, tx))
}
