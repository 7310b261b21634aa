//! Titles, products and resources of an import file: each is written as the body of `title.put`, `product.put` or
//! `resource.put`, and read by the same rules as a request.

use boxoffice_core::{
    command::{Command, DirectoryCommand, ProductCommand, ProductDetails, ResourceCommand, ResourceDetails, Title},
    id::Id,
};
use boxoffice_wire::{Call, Op, http};
use serde::Deserialize;
use serde_json::{Map, Value};

/// The lists of a file, as they are written.
#[derive(Default, Deserialize)]
#[serde(transparent)]
pub struct Written(Vec<Map<String, Value>>);

/// A thing of a file.
pub type Thing<T> = (Id, T);

/// The titles of a list.
///
/// # Errors
/// Which one is wrong, and what about it.
pub fn titles(list: Written) -> Result<Vec<Thing<Title>>, String> {
    things("title", Op::TitlePut, list, |command| match command {
        Command::Directory(DirectoryCommand::PutTitle(id, title)) => Some((id, title)),
        _ => None,
    })
}

/// The products of a list.
///
/// # Errors
/// Which one is wrong, and what about it.
pub fn products(list: Written) -> Result<Vec<Thing<ProductDetails>>, String> {
    things("product", Op::ProductPut, list, |command| match command {
        Command::Product(id, ProductCommand::Put(details)) => Some((id, *details)),
        _ => None,
    })
}

/// The resources of a list.
///
/// # Errors
/// Which one is wrong, and what about it.
pub fn resources(list: Written) -> Result<Vec<Thing<ResourceDetails>>, String> {
    things("resource", Op::ResourcePut, list, |command| match command {
        Command::Resource(id, ResourceCommand::Put(details)) => Some((id, *details)),
        _ => None,
    })
}

fn things<T>(
    kind: &str,
    op: Op,
    Written(list): Written,
    take: impl Fn(Command) -> Option<Thing<T>>,
) -> Result<Vec<Thing<T>>, String> {
    let mut things: Vec<Thing<T>> = Vec::with_capacity(list.len());
    for (number, mut body) in list.into_iter().enumerate() {
        // Every entry of a file may say what it is about; a node is not told.
        body.remove("about");
        let called =
            body.get("id").and_then(Value::as_str).map_or_else(|| format!("number {}", number + 1), Into::into);
        let text = Value::Object(body).to_string();
        // Any request id does: the body alone is looked at.
        let request = http::request(op, Some("import"), None, text.as_bytes());
        let request = request.map_err(|why| format!("{kind} {called}: {why}"))?;
        let thing = match request.call {
            Call::Command(command) => take(command),
            _ => None,
        };
        let thing = thing.expect("the op makes such a command");
        if things.iter().any(|(id, _)| *id == thing.0) {
            return Err(format!("{kind} {called} is there twice; leave one out"));
        }
        things.push(thing);
    }
    Ok(things)
}
