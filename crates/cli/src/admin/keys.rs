//! `boxoffice admin key`: keys are made here, listed and revoked.

use std::{fs::OpenOptions, io::Write, os::unix::fs::OpenOptionsExt, path::Path};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use boxoffice_client::{Id, KeyCreate, KeyList, KeyStatus};
use boxoffice_wire::access::ShownKey;
use clap::ValueEnum;
use rand::{TryRngCore, rngs::OsRng};
use smol_str::SmolStr;

use super::{as_json, nodes::table, print};
use crate::{
    args::{KeyCommand, Reach, RoleWord},
    failure::{Failure, Outcome},
    reach::{self, date_and_time, say},
};

/// Random bytes of a secret.
const SECRET_BYTES: usize = 32;

/// Does what is asked with keys.
pub(super) fn run(reach: &Reach, what: &KeyCommand) -> Outcome {
    match what {
        KeyCommand::Create { name, roles, venues, requests_per_second, held_max, to } => {
            let terms = Terms { roles, venues, requests_per_second: *requests_per_second, held_max: *held_max };
            create(reach, name, &terms, to.as_deref())
        }
        KeyCommand::List { json } => list(reach, *json),
        KeyCommand::Revoke { name } => revoke(reach, name),
    }
}

/// What a new key may do.
struct Terms<'a> {
    roles: &'a [RoleWord],
    venues: &'a [String],
    requests_per_second: Option<u32>,
    held_max: Option<u32>,
}

fn create(reach: &Reach, name: &str, terms: &Terms<'_>, to: Option<&Path>) -> Outcome {
    // The file is made first: if that fails, no key has been made.
    let file = to.map(|path| new_file(path).map(|file| (path, file))).transpose()?;
    let made = draw(reach, name, terms);
    let Some((path, mut file)) = file else {
        // A key that cannot be printed is lost; its owner makes another one.
        return if say(&made?) { Ok(()) } else { Err(Failure::Node("the key could not be printed".into())) };
    };
    let written = made.and_then(|key| {
        let text = key + "\n";
        let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
        written.map_err(|error| Failure::Node(format!("{}: the key could not be written: {error}", path.display())))
    });
    if written.is_err() {
        // It holds nothing.
        let _ = std::fs::remove_file(path);
    }
    written
}

/// Makes a key with these roles; the text that shows it.
///
/// # Errors
/// Why the node does not make it.
pub fn make(reach: &Reach, name: &str, roles: &[RoleWord]) -> Result<String, Failure> {
    draw(reach, name, &Terms { roles, venues: &[], requests_per_second: None, held_max: None })
}

/// Draws a secret, and tells the node its hash; the text that shows the key.
fn draw(reach: &Reach, name: &str, terms: &Terms<'_>) -> Result<String, Failure> {
    let id = key_id(name)?;
    let venue =
        |venue: &String| Id::new(venue).ok_or_else(|| Failure::Usage(format!("{venue}: this is no venue's id")));
    let venues = terms.venues.iter().map(venue).collect::<Result<Vec<_>, _>>()?;
    let mut bytes = [0; SECRET_BYTES];
    OsRng.try_fill_bytes(&mut bytes).map_err(|error| Failure::Node(format!("no randomness: {error}")))?;
    let secret = URL_SAFE_NO_PAD.encode(bytes);
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
    reach::block_on(async {
        let client = reach.connect().await?;
        client.key_create(&asked).await.map_err(|error| reach.failure(error))
    })?;
    Ok(key.written())
}

/// A file that was not there, for its owner alone.
fn new_file(path: &Path) -> Result<std::fs::File, Failure> {
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    opened.map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))
}

fn list(reach: &Reach, json: bool) -> Outcome {
    let keys = reach::block_on(async {
        let client = reach.connect().await?;
        Ok(client.keys().await.map_err(|error| reach.failure(error))?.value)
    })?;
    print(&if json { vec![as_json(&keys)] } else { lines(&keys) });
    Ok(())
}

fn revoke(reach: &Reach, name: &str) -> Outcome {
    let id = key_id(name)?;
    reach::block_on(async {
        let client = reach.connect().await?;
        client.key_revoke(&id).await.map(drop).map_err(|error| reach.failure(error))
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
