//! `boxoffice admin key`: makes, lists and revokes keys. `boxoffice admin token` makes an admin token.

use std::{fs::OpenOptions, io::Write, os::unix::fs::OpenOptionsExt, path::Path};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use boxoffice_client::{Id, KeyCreate, KeyList, KeyStatus};
use boxoffice_wire::access::ShownKey;
use clap::ValueEnum;
use smol_str::SmolStr;

use super::{as_json, nodes::table, print};
use crate::{
    args::{KeyCommand, NodeArgs, RoleWord},
    failure::{Failure, Outcome},
    ids,
    node_client::{self, date_and_time, say},
    secret,
};

/// Runs a command about keys.
pub(super) fn run(node_args: &NodeArgs, what: &KeyCommand) -> Outcome {
    match what {
        KeyCommand::Create { name, roles, venues, requests_per_second, held_max, to } => {
            let terms = KeyRights { roles, venues, requests_per_second: *requests_per_second, held_max: *held_max };
            create(node_args, name, &terms, to.as_deref())
        }
        KeyCommand::List { json } => list(node_args, *json),
        KeyCommand::Revoke { name } => revoke(node_args, name),
    }
}

/// The rights and limits of a new key.
struct KeyRights<'a> {
    roles: &'a [RoleWord],
    venues: &'a [String],
    requests_per_second: Option<u32>,
    held_max: Option<u32>,
}

fn create(node_args: &NodeArgs, name: &str, terms: &KeyRights<'_>, to: Option<&Path>) -> Outcome {
    // The file is made first. If that fails, no key is made.
    let file = to.map(|path| new_file(path).map(|file| (path, file))).transpose()?;
    let made = draw(node_args, name, terms);
    let Some((path, mut file)) = file else {
        // A key that cannot be printed is lost.
        return if say(&made?) { Ok(()) } else { Err(Failure::Node("the key could not be printed".into())) };
    };
    let written = made.and_then(|key| {
        let text = key + "\n";
        let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
        written.map_err(|error| Failure::Node(format!("{}: the key could not be written: {error}", path.display())))
    });
    if written.is_err() {
        // The file is empty.
        let _ = std::fs::remove_file(path);
    }
    written
}

/// Makes a key with these roles. Returns its text.
///
/// # Errors
/// Why the key was not made.
pub fn make(node_args: &NodeArgs, name: &str, roles: &[RoleWord]) -> Result<String, Failure> {
    draw(node_args, name, &KeyRights { roles, venues: &[], requests_per_second: None, held_max: None })
}

/// Prints a new admin token.
pub(super) fn make_admin_token() -> Outcome {
    print(&[URL_SAFE_NO_PAD.encode(secret::bytes()?)]);
    Ok(())
}

/// Draws a secret, and registers its hash. Returns the text of the key.
fn draw(node_args: &NodeArgs, name: &str, terms: &KeyRights<'_>) -> Result<String, Failure> {
    let id = key_id(name)?;
    let venue = |venue: &String| ids::id_of("venue", venue);
    let venues = terms.venues.iter().map(venue).collect::<Result<Vec<_>, _>>()?;
    let secret = URL_SAFE_NO_PAD.encode(secret::bytes()?);
    let key = ShownKey { name: id.as_str(), secret: &secret };
    let hash: String = key.hash().iter().map(|byte| format!("{byte:02x}")).collect();
    let asked = KeyCreate {
        id: id.clone(),
        hash: hash.into(),
        roles: terms.roles.iter().map(|role| word(*role)).collect(),
        venues,
        requests_per_second: terms.requests_per_second,
        held_max: terms.held_max,
    };
    node_client::block_on(async {
        let client = node_args.connect().await?;
        client.key_create(&asked).await.map_err(|error| node_args.failure(error))
    })?;
    Ok(key.written())
}

/// Creates a new file that only its owner may read.
fn new_file(path: &Path) -> Result<std::fs::File, Failure> {
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    opened.map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))
}

fn list(node_args: &NodeArgs, json: bool) -> Outcome {
    let keys = node_client::block_on(async {
        let client = node_args.connect().await?;
        Ok(client.keys().await.map_err(|error| node_args.failure(error))?.value)
    })?;
    print(&if json { vec![as_json(&keys)] } else { lines(&keys) });
    Ok(())
}

fn revoke(node_args: &NodeArgs, name: &str) -> Outcome {
    let id = key_id(name)?;
    node_client::block_on(async {
        let client = node_args.connect().await?;
        client.key_revoke(&id).await.map(drop).map_err(|error| node_args.failure(error))
    })?;
    print(&[format!("{name} is revoked")]);
    Ok(())
}

fn key_id(name: &str) -> Result<Id, Failure> {
    Id::new(name).ok_or_else(|| Failure::Usage(format!("{name}: the name of a key is 1 to 64 of A-Z a-z 0-9 . _ : -")))
}

fn word(role: RoleWord) -> SmolStr {
    let value = role.to_possible_value().expect("every role has a word");
    SmolStr::new(value.get_name())
}

fn lines(keys: &KeyList) -> Vec<String> {
    if keys.keys.is_empty() {
        return vec!["There are no keys. `boxoffice admin key create NAME --role ROLE` makes one.".into()];
    }
    let line = |key: &KeyStatus| {
        let venues: Vec<&str> = key.venues.iter().map(Id::as_str).collect();
        let number = |number: Option<u32>| number.map_or_else(|| "any".into(), |number| number.to_string());
        [
            key.id.to_string(),
            key.roles.join(", "),
            if venues.is_empty() { "all".into() } else { venues.join(", ") },
            number(key.requests_per_second),
            number(key.held_max),
            date_and_time(key.created_at),
        ]
    };
    let mut rows = vec![["key", "may", "for venues", "requests/s", "holds", "made"].map(str::to_owned)];
    rows.extend(keys.keys.iter().map(line));
    table(&rows)
}
