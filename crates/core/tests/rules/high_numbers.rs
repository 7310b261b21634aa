//! States with numbers near their maximum. A state is serialized, its numbers are raised, and it is read again. So a counter that
//! would take centuries to grow is high at once, and every number that is compared with it is raised as well.

use boxoffice_core::state_map::{Cut, StateMap};

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
        let mut raised = Vec::new();
        node.write(&mut raised);
        StateMap::restore(rmp_serde::from_slice(&raised).expect("a cut whose numbers are others can be read"))
    }

    /// Raises the numbers of a value. `field` is its name, and `others` are the names beside it.
    fn node(&self, node: &mut Node, field: &str, others: &[String]) {
        match node {
            Node::Number(number) if *number > 0 || is_attempt_of_hold(field, others) => {
                *number += self.of(field, others);
            }
            Node::Number(_) | Node::Text(_) | Node::Other(_) => {}
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
            "number" if has("entity") => self.lines,
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

/// A value of MessagePack, as far as needed.
enum Node {
    Number(u64),
    Text(String),
    List(Vec<Node>),
    Map(Vec<(Node, Node)>),
    /// Any other value, as its bytes.
    Other(Vec<u8>),
}

impl Node {
    fn read(rest: &mut &[u8]) -> Node {
        let all = *rest;
        let marker = take(rest, 1)[0];
        match marker {
            0x00..=0x7f => Node::Number(u64::from(marker)),
            0xcc => Node::Number(number(rest, 1)),
            0xcd => Node::Number(number(rest, 2)),
            0xce => Node::Number(number(rest, 4)),
            0xcf => Node::Number(number(rest, 8)),
            0xa0..=0xbf => Node::text(rest, u64::from(marker & 0x1f)),
            0xd9 => {
                let length = number(rest, 1);
                Node::text(rest, length)
            }
            0xda => {
                let length = number(rest, 2);
                Node::text(rest, length)
            }
            0x90..=0x9f => Node::list(rest, u64::from(marker & 0x0f)),
            0xdc => {
                let length = number(rest, 2);
                Node::list(rest, length)
            }
            0x80..=0x8f => Node::map(rest, u64::from(marker & 0x0f)),
            0xde => {
                let length = number(rest, 2);
                Node::map(rest, length)
            }
            _ => {
                let length = match marker {
                    // Nil, false, true, and small negative numbers.
                    0xc0 | 0xc2 | 0xc3 | 0xe0..=0xff => 0,
                    0xd0 => 1,
                    0xd1 => 2,
                    0xca | 0xd2 => 4,
                    0xcb | 0xd3 => 8,
                    0xc4 => number(rest, 1),
                    0xc5 => number(rest, 2),
                    0xc6 => number(rest, 4),
                    _ => panic!("a cut has no {marker:#x}"),
                };
                take(rest, length);
                Node::Other(all[..all.len() - rest.len()].to_vec())
            }
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

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Node::Number(number) => {
                out.push(0xcf);
                out.extend(number.to_be_bytes());
            }
            Node::Text(text) => {
                out.push(0xda);
                out.extend(u16::try_from(text.len()).expect("texts are short").to_be_bytes());
                out.extend(text.as_bytes());
            }
            Node::List(list) => {
                out.push(0xdc);
                out.extend(u16::try_from(list.len()).expect("lists are short").to_be_bytes());
                list.iter().for_each(|node| node.write(out));
            }
            Node::Map(map) => {
                out.push(0xde);
                out.extend(u16::try_from(map.len()).expect("maps are short").to_be_bytes());
                for (key, node) in map {
                    key.write(out);
                    node.write(out);
                }
            }
            Node::Other(bytes) => out.extend(bytes),
        }
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
