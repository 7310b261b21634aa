//! A shard's entities at one moment, to be written to a snapshot and read back. Each layout is written once.

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet},
    string::String,
    sync::Arc,
    vec::Vec,
};

use boxoffice_declare::Stored;

use super::{Entry, State, StateMap};
use crate::{
    cart::Cart,
    cluster_table::ClusterTable,
    code::Code,
    customer::Customer,
    directory::Directory,
    id::Entity,
    layout::Layout,
    planted,
    product::Product,
    resource::Resource,
    session::Session,
    shared_map::SharedMap,
    stored::{Decode, Definition, Encode, Error, Reader, Schema, Shape, Writer},
    venue::Venue,
};

/// A copy of a shard's entities at one moment. Making it copies references to the leaves that they are kept in.
#[derive(Clone, Debug)]
pub struct Cut {
    index: u64,
    entries: SharedMap<Entity, Entry>,
}

impl Cut {
    /// A cut of one entity, to keep it elsewhere. It has every event up to the place `index` of its shard's log.
    pub fn one(entity: Entity, state: Arc<State>, index: u64) -> Cut {
        let mut cut = Cut { index, entries: SharedMap::new() };
        cut.add(entity, state);
        cut
    }

    /// Adds an entity, or puts a newer state in its place.
    pub fn add(&mut self, entity: Entity, state: Arc<State>) {
        self.entries.insert(entity, Entry::new(state));
    }

    /// The place in the shard's log up to which it has every event.
    pub fn index(&self) -> u64 {
        self.index
    }

    /// Its entities, in order.
    pub fn entities(&self) -> impl Iterator<Item = (&Entity, &Arc<State>)> {
        self.entries.iter().map(|(entity, entry)| (entity, &entry.state))
    }

    /// How many entities it has.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl StateMap {
    /// A copy of everything as it is now. It is cheap.
    pub fn cut(&self) -> Cut {
        Cut { index: self.index, entries: self.entries.clone() }
    }

    /// A copy of these entities as they are now, or `None` if one of them is not in memory.
    pub fn cut_of(&self, entities: &BTreeSet<Entity>) -> Option<Cut> {
        let mut cut = Cut { index: self.index, entries: SharedMap::new() };
        for entity in entities {
            cut.add(entity.clone(), self.get(entity)?);
        }
        Some(cut)
    }

    /// Everything as it was when the cut was made.
    pub fn restore(cut: Cut) -> StateMap {
        StateMap::new().restored(cut)
    }

    /// Everything as it was when the cut was made, in this empty map.
    pub fn restored(self, cut: Cut) -> StateMap {
        let mut map = StateMap { index: cut.index, ..self };
        for (entity, state) in cut.entities().skip(usize::from(planted::is("a snapshot without one entity"))) {
            let mut state = Arc::clone(state);
            let strange = match &*state {
                State::Session(session) => !Arc::ptr_eq(&map.layouts.one(session.layout()), session.layout()),
                State::Venue(_) => true,
                _ => false,
            };
            if strange {
                map.layouts.adopt(Arc::make_mut(&mut state));
            }
            map.insert(entity.clone(), state, None);
        }
        if planted::is("deadlines not known after a snapshot") {
            map.wakes.clear();
        }
        map
    }
}

impl super::Layouts {
    /// Replaces the layouts of a state by equal ones that are in use already.
    fn adopt(&mut self, state: &mut State) {
        match state {
            State::Venue(venue) => {
                let shared: Vec<_> = venue.layouts().map(|layout| self.one(layout)).collect();
                let mut shared = shared.into_iter();
                venue.set_layouts(|| shared.next().expect("one for each"));
            }
            State::Session(session) => {
                let shared = self.one(session.layout());
                session.set_layout(shared);
            }
            _ => {}
        }
    }
}

/// A state as it is read, with numbers for its layouts.
#[derive(Debug, Stored)]
#[stored(name = "State")]
enum Read {
    #[n(0)]
    Venue(#[n(0)] Box<Venue>, #[n(1)] Vec<u32>),
    #[n(1)]
    Session(#[n(0)] Session, #[n(1)] u32),
    #[n(2)]
    Cart(#[n(0)] Box<Cart>),
    #[n(3)]
    Product(#[n(0)] Box<Product>),
    #[n(4)]
    Resource(#[n(0)] Box<Resource>),
    #[n(5)]
    Customer(#[n(0)] Box<Customer>),
    #[n(6)]
    Directory(#[n(0)] Box<Directory>),
    #[n(7)]
    Cluster(#[n(0)] Box<ClusterTable>),
    #[n(8)]
    Code(#[n(0)] Box<Code>),
}

/// Writes a state as [`Read`] reads it.
fn write(state: &State, number: impl Fn(&Arc<Layout>) -> u32, out: &mut Writer) {
    let mut one = |variant, state: &dyn Encode| {
        out.variant(variant, 1);
        state.encode(out);
    };
    match state {
        State::Venue(venue) => {
            let numbers: Vec<u32> = venue.layouts().map(number).collect();
            out.variant(0, if numbers.is_empty() { 1 } else { 2 });
            venue.encode(out);
            if !numbers.is_empty() {
                numbers.encode(out);
            }
        }
        State::Session(session) => {
            out.variant(1, 2);
            session.encode(out);
            number(session.layout()).encode(out);
        }
        State::Cart(cart) => one(2, cart),
        State::Product(product) => one(3, product),
        State::Resource(resource) => one(4, resource),
        State::Customer(customer) => one(5, customer),
        State::Directory(directory) => one(6, directory),
        State::Cluster(cluster) => one(7, cluster),
        State::Code(code) => one(8, code),
    }
}

/// The layouts of a cut in the order in which they first come up, found again by their address.
#[derive(Default)]
struct Numbers<'a> {
    layouts: Vec<&'a Layout>,
    by_address: BTreeMap<usize, u32>,
}

impl<'a> Numbers<'a> {
    fn of(&mut self, layout: &'a Arc<Layout>) -> u32 {
        let next = self.layouts.len() as u32;
        let number = *self.by_address.entry(Arc::as_ptr(layout) as usize).or_insert(next);
        if number == next {
            self.layouts.push(layout);
        }
        number
    }
}

impl Encode for Cut {
    fn encode(&self, out: &mut Writer) {
        let mut numbers = Numbers::default();
        for (_, state) in self.entities() {
            match &**state {
                State::Venue(venue) => venue.layouts().for_each(|layout| _ = numbers.of(layout)),
                State::Session(session) => _ = numbers.of(session.layout()),
                _ => {}
            }
        }
        let number = |layout: &Arc<Layout>| numbers.by_address[&(Arc::as_ptr(layout) as usize)];
        out.list(3);
        self.index.encode(out);
        numbers.layouts.encode(out);
        out.list(self.entries.len());
        for (entity, entry) in self.entries.iter() {
            out.list(2);
            entity.encode(out);
            write(&entry.state, number, out);
        }
    }
}

impl Decode for Cut {
    fn shape(schema: &mut Schema) -> Shape {
        schema.define::<Cut>("Cut", concat!(module_path!(), "::Cut"), |schema| {
            Definition::As(<(u64, Vec<Layout>, Vec<(Entity, Read)>)>::shape(schema))
        })
    }

    fn decode(from: &mut Reader<'_>) -> Result<Cut, Error> {
        let (index, layouts, read): (u64, Vec<Arc<Layout>>, Vec<(Entity, Read)>) = Decode::decode(from)?;
        let mut cut = Cut { index, entries: SharedMap::new() };
        for (entity, read) in read {
            cut.add(entity, Arc::new(read.state(&layouts).map_err(Error::message)?));
        }
        Ok(cut)
    }
}

impl Read {
    fn state(self, layouts: &[Arc<Layout>]) -> Result<State, String> {
        let layout = |number: u32| layouts.get(number as usize).cloned();
        let unknown = || String::from("a state names a layout that the cut does not have");
        Ok(match self {
            Read::Cart(cart) => State::Cart(cart),
            Read::Product(mut product) => {
                product.rebuild();
                State::Product(product)
            }
            Read::Resource(mut resource) => {
                resource.rebuild();
                State::Resource(resource)
            }
            Read::Customer(mut customer) => {
                customer.rebuild();
                State::Customer(customer)
            }
            Read::Code(mut code) => {
                code.rebuild();
                State::Code(code)
            }
            Read::Directory(directory) => State::Directory(directory),
            Read::Cluster(cluster) => State::Cluster(cluster),
            Read::Session(mut session, number) => {
                session.set_layout(layout(number).ok_or_else(unknown)?);
                session.rebuild();
                State::Session(session)
            }
            Read::Venue(mut venue, numbers) => {
                if venue.layouts().count() != numbers.len() {
                    return Err(unknown());
                }
                let found: Option<Vec<_>> = numbers.into_iter().map(layout).collect();
                let mut found = found.ok_or_else(unknown)?.into_iter();
                venue.set_layouts(|| found.next().expect("counted above"));
                State::Venue(venue)
            }
        })
    }
}
