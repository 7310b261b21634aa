//! States with numbers near their maximum. A state is serialized, its numbers are raised, and it is read again. So a counter that
//! would take centuries to grow is high at once, and every number that is compared with it is raised as well.

use boxoffice_core::state_map::{Cut, StateMap};
use serde::{
    Deserialize, Deserializer,
    de::{
        Error as _, IntoDeserializer, Visitor,
        value::{Error, MapAccessDeserializer, MapDeserializer, SeqDeserializer},
    },
    forward_to_deserialize_any,
};

/// The raise of each kind of number. A number that is 0 because there is nothing to count stays 0.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RaisedNumbers {
    /// Versions of entities, also where others refer to them.
    pub(crate) versions: u64,
    /// Revisions of holds.
    pub(crate) revisions: u64,
    /// Attempts of one request at a hold.
    pub(crate) attempts: u64,
    /// Attempts to pay.
    pub(crate) payments: u64,
    /// Numbers of lines.
    pub(crate) lines: u64,
    /// Numbers of messages that are owed.
    pub(crate) messages: u64,
    /// Generations of replicas.
    pub(crate) generations: u64,
}

impl RaisedNumbers {
    /// The same entities with raised numbers.
    pub(crate) fn raise(&self, cut: &Cut) -> StateMap {
        let written = rmp_serde::to_vec_named(cut).expect("a cut can be written");
        let mut rest = written.as_slice();
        let mut node = Node::read(&mut rest);
        assert!(rest.is_empty(), "one value was written");
        self.node(&mut node, "", &[]);
        StateMap::restore(Cut::deserialize(node).expect("a cut whose numbers are others can be read"))
    }

    /// Raises the numbers of a value. `field` is its name, and `others` are the names beside it.
    fn node(&self, node: &mut Node, field: &str, others: &[String]) {
        match node {
            Node::Number(number) if *number > 0 || is_attempt_of_hold(field, others) => {
                *number += self.of(field, others);
            }
            Node::Number(_) | Node::Text(_) | Node::Null | Node::Bool(_) | Node::Signed(_) | Node::Bytes(_) => {}
            Node::List(list) if field == "entries" => {
                for entry in list {
                    let Node::List(pair) = entry else { panic!("an entry of an outbox has a number") };
                    let Node::Number(number) = &mut pair[0] else { panic!("an entry of an outbox has a number") };
                    *number += self.messages;
                    self.node(&mut pair[1], "owed", &[]);
                }
            }
            Node::List(list) => list.iter_mut().for_each(|node| self.node(node, field, &[])),
            Node::Map(map) => {
                let names =
                    map.iter().filter_map(|(key, _)| if let Node::Text(name) = key { Some(name) } else { None });
                let names: Vec<String> = names.cloned().collect();
                for (key, node) in map {
                    match key {
                        Node::Text(name) => self.node(node, name, &names),
                        Node::Number(number) if field == "memory" => {
                            *number += self.versions;
                            self.node(node, field, &[]);
                        }
                        key => {
                            self.node(key, "key", &[]);
                            self.node(node, field, &[]);
                        }
                    }
                }
            }
        }
    }

    fn of(&self, field: &str, others: &[String]) -> u64 {
        let has = |name: &str| others.iter().any(|other| other == name);
        match field {
            "version" | "lines_version" | "decided" | "put" | "listed" | "opened" | "reached" => self.versions,
            "revision" | "released" => self.revisions,
            "disowned" => self.attempts,
            "attempt" if has("part") => self.attempts,
            "attempt" => self.payments,
            "count" if has("begun") => self.payments,
            "next_line" | "line" | "lines" => self.lines,
            "number" if has("item") => self.lines,
            "next" => self.messages,
            "generation" | "first_generation" | "next_generation" => self.generations,
            _ => 0,
        }
    }
}

/// The first attempt at a hold is attempt 0.
fn is_attempt_of_hold(field: &str, others: &[String]) -> bool {
    field == "attempt" && others.iter().any(|other| other == "part")
}

/// A value of MessagePack, as far as cuts have them.
enum Node {
    Null,
    Bool(bool),
    Number(u64),
    /// A negative number.
    Signed(i64),
    Text(String),
    Bytes(Vec<u8>),
    List(Vec<Node>),
    Map(Vec<(Node, Node)>),
}

impl Node {
    fn read(rest: &mut &[u8]) -> Node {
        let marker = take(rest, 1)[0];
        match marker {
            0xc0 => Node::Null,
            0xc2 | 0xc3 => Node::Bool(marker == 0xc3),
            0x00..=0x7f => Node::Number(u64::from(marker)),
            0xcc..=0xcf => Node::Number(number(rest, 1 << (marker - 0xcc))),
            0xe0..=0xff => Node::Signed(i64::from(marker as i8)),
            0xd0..=0xd3 => {
                let bytes = 1 << (marker - 0xd0);
                let missing = 64 - 8 * bytes as u32;
                Node::Signed((number(rest, bytes) << missing) as i64 >> missing)
            }
            0xa0..=0xbf => Node::text(rest, u64::from(marker & 0x1f)),
            0xd9..=0xdb => {
                let length = number(rest, 1 << (marker - 0xd9));
                Node::text(rest, length)
            }
            0xc4..=0xc6 => {
                let length = number(rest, 1 << (marker - 0xc4));
                Node::Bytes(take(rest, length).to_vec())
            }
            0x90..=0x9f => Node::list(rest, u64::from(marker & 0x0f)),
            0xdc | 0xdd => {
                let length = number(rest, 2 << (marker - 0xdc));
                Node::list(rest, length)
            }
            0x80..=0x8f => Node::map(rest, u64::from(marker & 0x0f)),
            0xde | 0xdf => {
                let length = number(rest, 2 << (marker - 0xde));
                Node::map(rest, length)
            }
            _ => panic!("a cut has no {marker:#x}"),
        }
    }

    fn text(rest: &mut &[u8], length: u64) -> Node {
        Node::Text(String::from_utf8(take(rest, length).to_vec()).expect("text is UTF-8"))
    }

    fn list(rest: &mut &[u8], length: u64) -> Node {
        Node::List((0..length).map(|_| Node::read(rest)).collect())
    }

    fn map(rest: &mut &[u8], length: u64) -> Node {
        Node::Map((0..length).map(|_| (Node::read(rest), Node::read(rest))).collect())
    }
}

fn take<'a>(rest: &mut &'a [u8], length: u64) -> &'a [u8] {
    let (taken, left) = rest.split_at(length as usize);
    *rest = left;
    taken
}

fn number(rest: &mut &[u8], length: u64) -> u64 {
    take(rest, length).iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

impl IntoDeserializer<'_, Error> for Node {
    type Deserializer = Node;

    fn into_deserializer(self) -> Node {
        self
    }
}

impl<'de> Deserializer<'de> for Node {
    type Error = Error;

    fn is_human_readable(&self) -> bool {
        false
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self {
            Node::Null => visitor.visit_unit(),
            Node::Bool(value) => visitor.visit_bool(value),
            Node::Number(number) => visitor.visit_u64(number),
            Node::Signed(number) => visitor.visit_i64(number),
            Node::Text(text) => visitor.visit_string(text),
            Node::Bytes(bytes) => visitor.visit_byte_buf(bytes),
            Node::List(list) => visitor.visit_seq(SeqDeserializer::new(list.into_iter())),
            Node::Map(map) => visitor.visit_map(MapDeserializer::new(map.into_iter())),
        }
    }

    fn deserialize_u128<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let Node::Bytes(bytes) = self else { return Err(Error::custom("128 bits are bytes")) };
        let bytes = <[u8; 16]>::try_from(bytes).map_err(|_| Error::custom("128 bits are 16 bytes"))?;
        visitor.visit_u128(u128::from_be_bytes(bytes))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if matches!(self, Node::Null) { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self {
            Node::Text(name) => visitor.visit_enum(name.into_deserializer()),
            Node::Map(map) => visitor.visit_enum(MapAccessDeserializer::new(MapDeserializer::new(map.into_iter()))),
            _ => Err(Error::custom("a variant is a name, or a map with its name")),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}
