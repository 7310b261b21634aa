//! States with numbers near their maximum. A state is serialized, its numbers are raised, and it is read again. So a counter that
//! would take centuries to grow is high at once, and every number that is compared with it is raised as well.

use boxoffice_core::{
    state_map::{Cut, StateMap},
    stored::{self, Decode, Definition, Encode, FieldReader, FieldShapes, Reader, Schema, Shape, Writer},
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
        let bytes = stored::append(cut, Vec::new());
        let mut schema = Schema::default();
        let shape = Cut::shape(&mut schema);
        let mut from = Reader::new(&bytes);
        let mut node = Node::read(&shape, &schema, &mut from);
        assert_eq!(from.position(), bytes.len(), "one value was written");
        self.node(&mut node, "", &[]);
        let raised = stored::append(&node, Vec::new());
        StateMap::restore(stored::read(&raised).expect("a cut whose numbers are others can be read"))
    }

    /// Raises the numbers of a value. `field` is its name, and `others` are the names beside it.
    fn node(&self, node: &mut Node, field: &str, others: &[&str]) {
        match node {
            Node::Number(number) if *number > 0 || is_attempt_of_hold(field, others) => {
                *number += self.of(field, others);
            }
            Node::Number(_) | Node::Null | Node::Other(_) => {}
            Node::Map(map) => {
                for (key, node) in map {
                    match key {
                        Node::Number(number) if field == "memory" => *number += self.versions,
                        key => self.node(key, "key", &[]),
                    }
                    self.node(node, field, &[]);
                }
            }
            Node::List(list) if field == "entries" => {
                for entry in list {
                    let Node::List(pair) = entry else { panic!("an entry of an outbox has a number") };
                    let Node::Number(number) = &mut pair[0] else { panic!("an entry of an outbox has a number") };
                    *number += self.messages;
                    self.node(&mut pair[1], "owed", &[]);
                }
            }
            Node::List(list) => list.iter_mut().for_each(|node| self.node(node, field, &[])),
            Node::Struct(_, fields) => {
                let names: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
                let is_tuple = names.iter().all(|name| name.starts_with(|first: char| first.is_ascii_digit()));
                for (name, node) in fields {
                    self.node(node, if is_tuple { field } else { name }, &names);
                }
            }
        }
    }

    fn of(&self, field: &str, others: &[&str]) -> u64 {
        let has = |name: &str| others.contains(&name);
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
fn is_attempt_of_hold(field: &str, others: &[&str]) -> bool {
    field == "attempt" && others.contains(&"part")
}

/// A stored value, as far as its numbers and names matter.
enum Node {
    Null,
    Number(u64),
    /// The bytes of any other value without parts.
    Other(Vec<u8>),
    List(Vec<Node>),
    Map(Vec<(Node, Node)>),
    /// The number if it is a variant, and the fields by name.
    Struct(Option<u32>, Vec<(&'static str, Node)>),
}

impl Node {
    fn read(shape: &Shape, schema: &Schema, from: &mut Reader<'_>) -> Node {
        let start = from.position();
        match shape {
            Shape::Leaf("u16" | "u32" | "u64") => Node::Number(from.u64().expect("a number")),
            Shape::Leaf(_) | Shape::Array(..) | Shape::Result(_) => {
                from.skip().expect("a value");
                Node::Other(from.input()[start..from.position()].to_vec())
            }
            Shape::Option(_) if from.null().is_ok() => Node::Null,
            Shape::Option(shape) => {
                from.set_position(start);
                Node::read(shape, schema, from)
            }
            Shape::List(shape) | Shape::Set(shape) => {
                let length = stored::list(from).expect("a list");
                Node::List((0..length).map(|_| Node::read(shape, schema, from)).collect())
            }
            Shape::Map(entry) => {
                let length = from.map().expect("a map").expect("with a length");
                let mut next = |shape| Node::read(shape, schema, from);
                Node::Map((0..length).map(|_| (next(&entry.0), next(&entry.1))).collect())
            }
            Shape::Tuple(shapes) => {
                assert_eq!(stored::list(from).expect("a tuple"), shapes.len());
                Node::List(shapes.iter().map(|shape| Node::read(shape, schema, from)).collect())
            }
            Shape::Named(name) => match schema.get(name).expect("the schema is whole") {
                Definition::As(shape) => Node::read(shape, schema, from),
                Definition::Struct(shapes) => {
                    let fields = FieldReader::of_struct(from).expect("a struct");
                    Node::Struct(None, Node::fields(fields, shapes, schema, from))
                }
                Definition::Enum(variants) => {
                    let (number, fields) = FieldReader::of_variant(from).expect("a variant");
                    let (.., shapes) = variants.iter().find(|variant| variant.0 == number).expect("a known one");
                    Node::Struct(Some(number), Node::fields(fields, shapes, schema, from))
                }
            },
        }
    }

    /// The fields that are present.
    fn fields(
        mut fields: FieldReader,
        shapes: &FieldShapes,
        schema: &Schema,
        from: &mut Reader<'_>,
    ) -> Vec<(&'static str, Node)> {
        let mut next = |shape| fields.next_with(from, |from| Ok(Some(Node::read(shape, schema, from))), || Some(None));
        shapes.iter().map_while(|(_, name, shape)| Some((*name, next(shape).expect("a field")?))).collect()
    }
}

impl Encode for Node {
    fn encode(&self, out: &mut Writer) {
        match self {
            Node::Null => out.gone(),
            Node::Number(number) => out.number(*number),
            Node::Other(bytes) => out.raw(bytes),
            Node::List(list) => list.encode(out),
            Node::Map(map) => {
                out.map(map.len());
                for (key, value) in map {
                    key.encode(out);
                    value.encode(out);
                }
            }
            Node::Struct(number, fields) => {
                match number {
                    Some(number) => out.variant(*number, fields.len()),
                    None => out.list(fields.len()),
                }
                fields.iter().for_each(|(_, node)| node.encode(out));
            }
        }
    }
}
