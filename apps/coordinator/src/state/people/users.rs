//! People as an owner manages them.

use serde_json::{Value, json};
use taut_base::is_printable;

use super::super::ended_people::{EndedDevices, end_devices_of};
use super::super::names::is_number;
use super::super::{State, StateError, networks};
use super::groups::{free_devices, regroup, regroup_role};
use super::{Access, Area, Caller, Change, LARGEST_PAGE, Need, PeopleError, Role, record};
use crate::clock::unix_now;
use crate::store::{LOCAL, NetworkRow, NewPerson, Party, PersonRow, Reading, Writing};

/// Most people, 100,000: more than any company of this size of network has, and few enough for the disk.
pub(super) const MOST: i64 = 100_000;

/// Longest sign-in name, and longest displayed name, in characters.
const LENGTHS: (usize, usize) = (64, 128);

/// Longest email address, in bytes (RFC 5321).
const LONGEST_EMAIL: usize = 254;

/// A role of a person.
pub(crate) struct RoleView {
    /// Name of the network; `None` for all networks and the coordinator itself.
    pub(crate) network: Option<String>,
    pub(crate) role: Role,
}

/// A person as an owner sees it. No field of it is a secret (fault E4).
pub(crate) struct UserView {
    pub(crate) row: PersonRow,
    pub(crate) roles: Vec<RoleView>,
    /// True if the person has a password, or signs in at an OpenID provider.
    pub(crate) can_sign_in: bool,
    /// True if the person has turned one-time codes on.
    pub(crate) has_codes: bool,
}

/// A person to create.
pub(crate) struct NewUser {
    /// The name with which it signs in.
    pub(crate) name: String,
    pub(crate) display_name: Option<String>,
    pub(crate) email: Option<String>,
    /// The role in all networks.
    pub(crate) role: Option<String>,
}

/// Fields of a person to change; `None` leaves a field as it is.
#[derive(Default)]
pub(crate) struct EditUser {
    pub(crate) display_name: Option<String>,
    pub(crate) email: Option<Option<String>>,
    pub(crate) disabled: Option<bool>,
    /// The version that the caller has read.
    pub(crate) version: Option<u64>,
}

impl State {
    /// Returns people with numbers above `after`, sorted by number, and the number after which the next page begins.
    pub(crate) async fn users(&self, after: i64, most: u32) -> Result<(Vec<UserView>, Option<i64>), StateError> {
        let most = most.clamp(1, LARGEST_PAGE);
        let mut tx = self.store.read(Party::Operators).await?;
        let rows = tx.people(after, most).await?;
        let next = rows.last().map(|row| row.id).filter(|_| rows.len() >= most as usize);
        let all = tx.networks().await?;
        let mut views = Vec::with_capacity(rows.len());
        for row in rows {
            views.push(view(&mut tx, &all, row).await?);
        }
        Ok((views, next))
    }

    /// Returns a person by number or sign-in name.
    pub(crate) async fn user(&self, who: &str) -> Result<UserView, StateError> {
        let mut tx = self.store.read(Party::Operators).await?;
        let row = find(&mut tx, who).await?;
        let all = tx.networks().await?;
        view(&mut tx, &all, row).await
    }

    /// Creates a local person. Returns the person, and the link with which it sets its password, so that only that person ever knows the password.
    pub(crate) async fn create_user(&self, new: NewUser) -> Result<(UserView, String), StateError> {
        let display_name = new.display_name.as_deref().unwrap_or(&new.name);
        check_sign_in_name(&new.name)?;
        check_display_name(display_name)?;
        check_email(new.email.as_deref())?;
        let role = new.role.as_deref().map(role).transpose()?;
        let mut tx = self.store.write(Party::Operators).await?;
        if tx.person_of(LOCAL, &new.name).await?.is_some() {
            return Err(PeopleError::PersonExists(new.name).into());
        }
        if tx.count_people().await? >= MOST {
            return Err(PeopleError::TooManyPeople.into());
        }
        let email = new.email.as_deref();
        let person = NewPerson { issuer: LOCAL, subject: &new.name, name: display_name, email };
        let row = tx.insert_person(&person, unix_now()).await?;
        if let Some(role) = role {
            tx.set_role(row.id, None, Some(role.name())).await?;
        }
        let regrouped = regroup_role(&mut tx, &row, None).await?;
        let secret = Self::first_password_link(&mut tx, row.id).await?;
        let all = tx.networks().await?;
        let view = view(&mut tx, &all, row).await?;
        record(&mut tx, change("user-created", view.row.id, None, Some(value(&view)))).await?;
        tx.commit().await?;
        self.announce_groups(regrouped);
        Ok((view, self.password_url(&secret)))
    }

    /// Changes fields of a person. A disabled person has no session and no token any more, and its devices have to be renewed.
    pub(crate) async fn edit_user(&self, who: &str, edit: EditUser) -> Result<UserView, StateError> {
        if let Some(name) = &edit.display_name {
            check_display_name(name)?;
        }
        check_email(edit.email.as_ref().and_then(Option::as_deref))?;
        let mut tx = self.store.write(Party::Operators).await?;
        let mut row = find(&mut tx, who).await?;
        expect_version(&row, edit.version)?;
        let had_owner = has_owner(&mut tx).await?;
        let all = tx.networks().await?;
        let before = view(&mut tx, &all, row.clone()).await?;
        row.name = edit.display_name.unwrap_or(row.name);
        row.email = edit.email.unwrap_or(row.email);
        match edit.disabled {
            Some(true) => row.disabled_at = row.disabled_at.or(Some(unix_now())),
            Some(false) => row.disabled_at = None,
            None => {}
        }
        let row = tx.update_person(&row).await?;
        let mut ended = EndedDevices::default();
        if let (Some(now), None) = (row.disabled_at, before.row.disabled_at) {
            ended = end_devices_of(&mut tx, row.id, now).await?;
        }
        if row.disabled_at.is_some() {
            tx.delete_sessions(row.id, None).await?;
        }
        let regrouped = regroup(&mut tx, &before.row, Some(&row)).await?;
        expect_owner(&mut tx, had_owner).await?;
        let after = view(&mut tx, &all, row).await?;
        record(&mut tx, change("user-changed", after.row.id, Some(value(&before)), Some(value(&after)))).await?;
        tx.commit().await?;
        self.announce_ended(ended);
        self.announce_groups(regrouped);
        Ok(after)
    }

    /// Sets the role of a person in a network, or in all networks if none is named; takes it away if `role` is `None`.
    pub(crate) async fn set_user_role(
        &self,
        who: &str,
        network: Option<&str>,
        role_name: Option<&str>,
    ) -> Result<UserView, StateError> {
        let role = role_name.map(role).transpose()?;
        let caller = Caller::current();
        let mut tx = self.store.write(Party::Operators).await?;
        let network = match network {
            Some(_) => Some(networks::named(&mut tx, network).await?.id),
            None if caller.is_allowed(None) => None,
            None => return Err(PeopleError::Forbidden.into()),
        };
        let row = find(&mut tx, who).await?;
        let all = tx.networks().await?;
        let new = role.map(Role::name);
        let former = tx.roles(row.id).await?.into_iter().find(|found| found.network == network).map(|found| found.role);
        if former.as_deref() == new {
            return view(&mut tx, &all, row).await;
        }
        let had_owner = has_owner(&mut tx).await?;
        tx.set_role(row.id, network, new).await?;
        let row = tx.update_person(&row).await?;
        expect_owner(&mut tx, had_owner).await?;
        let regrouped = regroup_role(&mut tx, &row, network).await?;
        let after = view(&mut tx, &all, row).await?;
        // The entry is shown to all auditors of its network, so it has nothing else of the person.
        let (before, is) = (json!({ "role": former }), json!({ "role": new }));
        let change = change("role-changed", after.row.id, Some(before), Some(is));
        record(&mut tx, Change { network, ..change }).await?;
        tx.commit().await?;
        self.announce_groups(regrouped);
        Ok(after)
    }

    /// Ends all sessions of a person. Returns their number.
    pub(crate) async fn end_sessions(&self, who: &str) -> Result<u64, StateError> {
        let mut tx = self.store.write(Party::Operators).await?;
        let row = find(&mut tx, who).await?;
        let ended = tx.delete_sessions(row.id, None).await?;
        record(&mut tx, change("sessions-ended", row.id, None, Some(json!({ "sessions": ended })))).await?;
        tx.commit().await?;
        Ok(ended)
    }

    /// Turns the one-time codes of a person off, who has lost the authenticator and all recovery codes.
    pub(crate) async fn remove_codes(&self, who: &str) -> Result<UserView, StateError> {
        let mut tx = self.store.write(Party::Operators).await?;
        let row = find(&mut tx, who).await?;
        tx.delete_totp(row.id).await?;
        record(&mut tx, change("codes-removed", row.id, None, None)).await?;
        let all = tx.networks().await?;
        let view = view(&mut tx, &all, row).await?;
        tx.commit().await?;
        Ok(view)
    }

    /// Removes a person with all its data. The audit log keeps the person's changes, without its name.
    pub(crate) async fn remove_user(&self, who: &str) -> Result<UserView, StateError> {
        let mut tx = self.store.write(Party::Operators).await?;
        let row = find(&mut tx, who).await?;
        let had_owner = has_owner(&mut tx).await?;
        let all = tx.networks().await?;
        let removed = view(&mut tx, &all, row).await?;
        let id = removed.row.id;
        // The entry has none of the person's data. It is written before the erasure, because a person may remove itself and would then be its author.
        record(&mut tx, change("user-removed", id, None, None)).await?;
        tx.delete_person(id, &format!("removed user {id}")).await?;
        let regrouped = regroup(&mut tx, &removed.row, None).await?;
        let freed = free_devices(&mut tx, &removed.row).await?;
        expect_owner(&mut tx, had_owner).await?;
        tx.commit().await?;
        self.announce_groups(regrouped);
        self.announce_groups(freed);
        Ok(removed)
    }
}

fn change(action: &'static str, id: i64, before: Option<Value>, after: Option<Value>) -> Change {
    Change { network: None, action, object: format!("user {id}"), before, after }
}

/// Returns a person for the audit log.
fn value(view: &UserView) -> Value {
    let roles: Vec<Value> =
        view.roles.iter().map(|role| json!({ "network": role.network, "role": role.role.name() })).collect();
    let PersonRow { issuer, subject, name, email, disabled_at, .. } = &view.row;
    json!({ "issuer": issuer, "name": subject, "display_name": name, "email": email, "disabled": disabled_at.is_some(), "roles": roles })
}

/// Returns a person by number (digits only) or by sign-in name.
pub(super) async fn find(tx: &mut Reading, who: &str) -> Result<PersonRow, StateError> {
    let found = match who.parse::<i64>() {
        Ok(id) if is_number(who) => tx.person(id).await?,
        _ => tx.person_of(LOCAL, who).await?,
    };
    found.ok_or_else(|| PeopleError::NoPerson(String::from(who)).into())
}

/// Returns a person with its roles. Roles in networks that the caller may not see are left out. A caller who may not see people in all networks gets another
/// person's names only: its email address, its last sign-in, and whether it is disabled or has credentials, are left out.
pub(super) async fn view(tx: &mut Reading, all: &[NetworkRow], row: PersonRow) -> Result<UserView, StateError> {
    let caller = Caller::current();
    let need = Need { area: Area::Users, access: Access::Read, everywhere: false, ..Need::OWNER };
    let is_own = caller.actor.person() == Some(row.id);
    let mut roles = Vec::new();
    for found in tx.roles(row.id).await? {
        let Ok(role) = found.role.parse::<Role>() else { continue };
        let network = all.iter().find(|network| Some(network.id) == found.network);
        let is_visible = is_own || caller.grants.allow(need, found.network);
        // A role in a network that no longer exists gives no rights and is left out.
        if is_visible && (found.network.is_none() || network.is_some()) {
            roles.push(RoleView { network: network.map(|network| network.name.clone()), role });
        }
    }
    if !is_own && !caller.grants.allow(need, None) {
        let row = PersonRow { email: None, disabled_at: None, seen_at: None, ..row };
        return Ok(UserView { row, roles, can_sign_in: false, has_codes: false });
    }
    let can_sign_in = row.issuer != LOCAL || tx.password_hash(row.id).await?.is_some();
    let has_codes = tx.totp(row.id).await?.is_some_and(|totp| totp.confirmed_at.is_some());
    Ok(UserView { row, roles, can_sign_in, has_codes })
}

/// Returns an error if the person has another version than the caller has read.
fn expect_version(row: &PersonRow, version: Option<u64>) -> Result<(), PeopleError> {
    if version.is_some_and(|version| version != row.version) { Err(PeopleError::Changed) } else { Ok(()) }
}

async fn has_owner(tx: &mut Writing) -> Result<bool, StateError> {
    Ok(!tx.people_with_role(Role::Owner.name()).await?.is_empty())
}

/// Returns an error if this transaction takes the last owner away.
async fn expect_owner(tx: &mut Writing, had_owner: bool) -> Result<(), StateError> {
    if had_owner && !has_owner(tx).await? { Err(PeopleError::LastOwner.into()) } else { Ok(()) }
}

fn role(text: &str) -> Result<Role, PeopleError> {
    text.parse().map_err(|()| PeopleError::BadRole(text.chars().take(LENGTHS.0).collect()))
}

/// Checks a name with which a person signs in.
pub(super) fn check_sign_in_name(name: &str) -> Result<(), PeopleError> {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_allowed = |byte: u8| is_letter(byte) || b"._-@+".contains(&byte);
    if name.is_empty() || name.len() > LENGTHS.0 || !name.bytes().all(is_allowed) {
        return Err(PeopleError::BadName("it is empty, too long, or has other characters"));
    }
    if !name.bytes().next().is_some_and(is_letter) {
        return Err(PeopleError::BadName("it does not begin with a letter or digit"));
    }
    if is_number(name) {
        return Err(PeopleError::BadName("it is a number"));
    }
    Ok(())
}

/// Checks a displayed name. Any script is allowed; characters that change how text around them is shown are not (fault E16).
pub(super) fn check_display_name(name: &str) -> Result<(), PeopleError> {
    let length = name.chars().count();
    if name.trim().is_empty() || length > LENGTHS.1 || !name.chars().all(is_printable) {
        return Err(PeopleError::BadName("it is empty, too long, or has invisible characters"));
    }
    Ok(())
}

pub(super) fn check_email(email: Option<&str>) -> Result<(), PeopleError> {
    let Some(email) = email else { return Ok(()) };
    let is_plain =
        email.len() <= LONGEST_EMAIL && email.chars().all(|letter| is_printable(letter) && !letter.is_whitespace());
    let has_both = email
        .split_once('@')
        .is_some_and(|(name, domain)| !name.is_empty() && !domain.is_empty() && !domain.contains('@'));
    if is_plain && has_both { Ok(()) } else { Err(PeopleError::BadEmail) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_e16_names_are_plain() {
        for good in ["ann", "ann@example.com", "a.b-c_d+e", "7of9"] {
            assert!(check_sign_in_name(good).is_ok(), "{good}");
        }
        for wrong in ["", "Ann", "-a", "a b", "a\n", "42", "ä", "a'--", "../a", &"a".repeat(65)] {
            assert!(check_sign_in_name(wrong).is_err(), "{wrong}");
        }
        for good in ["Ann", "Ægir Þór", "王小明", "<script>alert(1)</script>"] {
            assert!(check_display_name(good).is_ok(), "{good}: shown as text, never as markup");
        }
        for wrong in ["", "  ", "a\nb", "a\u{202e}b", "a\u{ad}b", "a\0", "\u{1b}[2J", &"a".repeat(129)] {
            assert!(check_display_name(wrong).is_err(), "{wrong:?}");
        }
        for wrong in ["", "ann", "@a", "a@", "a@b@c", "a b@c", "a@b\r\nBcc: x"] {
            assert!(check_email(Some(wrong)).is_err(), "{wrong:?}");
        }
    }
}
