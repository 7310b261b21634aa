//! A batch. Its items are submitted in waves, each of commands of one kind at the same time.

use std::mem::{Discriminant, discriminant};

use boxoffice_core::command::{
    CartCommand, ClusterCommand, CodeCommand, Command, CustomerCommand, DirectoryCommand, ProductCommand,
    ResourceCommand, SessionCommand, VenueCommand,
};
use boxoffice_wire::{Fail, FailKind, Rejection, call::Item, encode::Verdict};
use tokio::time::Instant;

/// Items of one batch that are under way at the same time. Enough to share each write to disk, and few enough not to hold
/// up others.
const ITEMS_UNDER_WAY_MAX: usize = 64;

/// A batch under way.
pub(crate) struct Batch {
    /// The client's number for the request.
    pub(crate) id: u64,
    /// When the batch arrived.
    pub(crate) at: Instant,
    pub(crate) deadline: Instant,
    items: Vec<Option<Item>>,
    verdicts: Vec<Option<Verdict>>,
    /// The first item that has not been started.
    next: usize,
    under_way: usize,
    /// The kind of the last item that was started.
    wave: Option<Kind>,
}

/// A kind of command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Venue(Discriminant<VenueCommand>),
    Session(Discriminant<SessionCommand>),
    Cart(Discriminant<CartCommand>),
    Product(Discriminant<ProductCommand>),
    Resource(Discriminant<ResourceCommand>),
    Customer(Discriminant<CustomerCommand>),
    Code(Discriminant<CodeCommand>),
    Directory(Discriminant<DirectoryCommand>),
    Cluster(Discriminant<ClusterCommand>),
}

impl Batch {
    pub(crate) fn new(id: u64, at: Instant, deadline: Instant, items: Vec<Result<Item, Rejection>>) -> Batch {
        let (items, verdicts) = items
            .into_iter()
            .map(|item| match item {
                Ok(item) => (Some(item), None),
                Err(why) => (None, Some(Verdict::Rejected(why))),
            })
            .unzip();
        Batch { id, at, deadline, items, verdicts, next: 0, under_way: 0, wave: None }
    }

    /// The next item, if it may be submitted now.
    pub(crate) fn start(&mut self) -> Option<(usize, Item)> {
        // Rejected items are answered already.
        while self.items.get(self.next).is_some_and(Option::is_none) {
            self.next += 1;
        }
        let kind = kind(&self.items.get(self.next)?.as_ref()?.command);
        let joins = self.under_way == 0 || self.wave == Some(kind);
        if !joins || self.under_way == ITEMS_UNDER_WAY_MAX {
            return None;
        }
        let item = self.items[self.next].take()?;
        self.wave = Some(kind);
        self.under_way += 1;
        self.next += 1;
        Some((self.next - 1, item))
    }

    /// Sets the verdict of an item.
    pub(crate) fn ended(&mut self, item: usize, verdict: Verdict) {
        let before = self.verdicts[item].replace(verdict);
        assert!(before.is_none(), "item {item} of a batch was answered twice");
        self.under_way -= 1;
    }

    /// The deadline has passed. Items that were not started fail.
    pub(crate) fn give_up(&mut self) {
        for (item, verdict) in self.items.iter_mut().zip(&mut self.verdicts) {
            if item.take().is_some() {
                let words = "the batch's deadline passed before this item was submitted; it did not happen";
                *verdict = Some(Verdict::Fail(Fail::new(FailKind::Busy).saying(words)));
            }
        }
    }

    /// The verdicts, once every item has one.
    pub(crate) fn verdicts(&mut self) -> Option<Vec<Verdict>> {
        let done = self.under_way == 0 && self.verdicts.iter().all(Option::is_some);
        done.then(|| std::mem::take(&mut self.verdicts).into_iter().flatten().collect())
    }
}

/// The kind of a command. Commands of the same kind may share a wave.
fn kind(command: &Command) -> Kind {
    match command {
        Command::Venue(_, command) => Kind::Venue(discriminant(command)),
        Command::Session(_, command) => Kind::Session(discriminant(command)),
        Command::Cart(_, command) => Kind::Cart(discriminant(command)),
        Command::Product(_, command) => Kind::Product(discriminant(command)),
        Command::Resource(_, command) => Kind::Resource(discriminant(command)),
        Command::Customer(_, command) => Kind::Customer(discriminant(command)),
        Command::Code(_, command) => Kind::Code(discriminant(command)),
        Command::Directory(command) => Kind::Directory(discriminant(command)),
        Command::Cluster(command) => Kind::Cluster(discriminant(command)),
    }
}
