//! Titles, products, resources and codes of an import file. Each is a body of `title.put`, `product.put`, `resource.put` or `code.put`,
//! and is read like a request.

use std::collections::BTreeSet;

use boxoffice_core::{
    command::{
        CodeCommand, CodeDetails, Command, DirectoryCommand, ProductCommand, ProductDetails, ResourceCommand,
        ResourceDetails, Title,
    },
    id::Id,
};
use boxoffice_wire::{Call, Op, http};
use serde::Deserialize;
use serde_json::{Map, Value};

/// A list of a file.
#[derive(Default, Deserialize)]
#[serde(transparent)]
pub struct RawList(Vec<Map<String, Value>>);

impl From<Vec<Map<String, Value>>> for RawList {
    fn from(list: Vec<Map<String, Value>>) -> RawList {
        RawList(list)
    }
}

/// An entry of a file.
pub type Thing<T> = (Id, T);

/// The titles of a list.
///
/// # Errors
/// The first invalid entry, and what is wrong with it.
pub fn titles(list: RawList) -> Result<Vec<Thing<Title>>, String> {
    things("title", Op::TitlePut, list, |command| match command {
        Command::Directory(DirectoryCommand::PutTitle(id, title)) => Some((id, title)),
        _ => None,
    })
}

/// The products of a list.
///
/// # Errors
/// The first invalid entry, and what is wrong with it.
pub fn products(list: RawList) -> Result<Vec<Thing<ProductDetails>>, String> {
    things("product", Op::ProductPut, list, |command| match command {
        Command::Product(id, ProductCommand::Put(details)) => Some((id, *details)),
        _ => None,
    })
}

/// The resources of a list.
///
/// # Errors
/// The first invalid entry, and what is wrong with it.
pub fn resources(list: RawList) -> Result<Vec<Thing<ResourceDetails>>, String> {
    things("resource", Op::ResourcePut, list, |command| match command {
        Command::Resource(id, ResourceCommand::Put(details)) => Some((id, *details)),
        _ => None,
    })
}

/// The codes of a list.
///
/// # Errors
/// The first invalid entry, and what is wrong with it.
pub fn codes(list: RawList) -> Result<Vec<Thing<CodeDetails>>, String> {
    things("code", Op::CodePut, list, |command| match command {
        Command::Code(id, CodeCommand::Put(details)) => Some((id, details)),
        _ => None,
    })
}

fn things<T>(
    kind: &str,
    op: Op,
    RawList(list): RawList,
    take: impl Fn(Command) -> Option<Thing<T>>,
) -> Result<Vec<Thing<T>>, String> {
    let mut things: Vec<Thing<T>> = Vec::with_capacity(list.len());
    let mut ids = BTreeSet::new();
    for (number, mut body) in list.into_iter().enumerate() {
        // An entry may have a remark, which is not sent to the node.
        body.remove("about");
        let called =
            body.get("id").and_then(Value::as_str).map_or_else(|| format!("number {}", number + 1), Into::into);
        let text = Value::Object(body).to_string();
        // Any request id will do, since only the body is used.
        let request = http::request(op, Some("import"), None, text.as_bytes());
        let request = request.map_err(|why| format!("{kind} {called}: {why}"))?;
        let thing = match request.call {
            Call::Command(command) => take(command),
            _ => None,
        };
        let thing = thing.expect("the op makes such a command");
        if !ids.insert(thing.0.clone()) {
            return Err(format!("{kind} {called} is there twice; leave one out"));
        }
        things.push(thing);
    }
    Ok(things)
}
