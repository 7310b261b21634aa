//! Makes values of every stored type as bytes, from the schema alone. So they do not come from the code that reads them.
//!
//! Each struct and each variant has all its fields zero, small and largest, and each field that may be absent alone. From [`DEPTH`]
//! on the types in types are zero, and one of their variants is chosen by a seed. So there are about as many values as the schema
//! has lines.

use std::slice;

use boxoffice_core::stored::{Definition, FieldShapes, Schema, Shape};

/// How deep in a value its types are more than zero.
const DEPTH: u32 = 2;

/// How large the parts of a value are. Lists have no, one or two items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Size {
    Zero,
    Small,
    Largest,
}

const SIZES: [Size; 3] = [Size::Zero, Size::Small, Size::Largest];

/// A number in the initial byte of a value and the bytes behind it, in the shortest form.
fn head(major: u8, number: u64) -> Vec<u8> {
    let bytes = number.to_be_bytes();
    let (short, from) = match number {
        0..24 => return vec![major << 5 | number as u8],
        24..0x100 => (24, 7),
        0x100..0x1_0000 => (25, 6),
        0x1_0000..0x1_0000_0000 => (26, 4),
        _ => (27, 0),
    };
    [&[major << 5 | short], &bytes[from..]].concat()
}

fn signed(number: i64) -> Vec<u8> {
    if number < 0 { head(1, !number as u64) } else { head(0, number as u64) }
}

fn bytes(bytes: &[u8]) -> Vec<u8> {
    [head(2, bytes.len() as u64), bytes.to_vec()].concat()
}

fn text(text: &str) -> Vec<u8> {
    [head(3, text.len() as u64), text.as_bytes().to_vec()].concat()
}

fn list(values: &[Vec<u8>]) -> Vec<u8> {
    [head(4, values.len() as u64), values.concat()].concat()
}

/// Seven bits a byte, the lowest first.
fn short(mut number: u64, bytes: &mut Vec<u8>) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn shorts(numbers: &[u64]) -> Vec<u8> {
    let mut bytes = Vec::new();
    numbers.iter().for_each(|number| short(*number, &mut bytes));
    bytes
}

fn instant(ms: u64) -> Vec<u8> {
    bytes(&ms.to_be_bytes()[ms.leading_zeros() as usize / 8..])
}

fn slot(begin: u64, end: u64) -> Vec<u8> {
    list(&[instant(begin), instant(end)])
}

/// Rows and seats, and prices.
fn priced(seats: &[u64], prices: &[i64]) -> Vec<u8> {
    list(&[bytes(&shorts(seats)), list(&prices.iter().map(|price| signed(*price)).collect::<Vec<_>>())])
}

/// A price without more, and one at which a seat was bought as something.
fn plain_price(price: i64) -> Vec<u8> {
    list(&[signed(price)])
}

fn offered_price(price: i64) -> Vec<u8> {
    let tax = list(&[head(0, 700), text("reduced")]);
    let bought_as = list(&[head(0, 2), signed(1_500), text("adult"), text("web"), tax]);
    list(&[signed(price), bought_as])
}

/// Prices of seats: how many, the different ones, and which of them each has.
fn prices(count: u64, kinds: &[Vec<u8>], numbers: &[u8]) -> Vec<u8> {
    list(&[head(0, count), list(kinds), bytes(numbers)])
}

fn charge(tags: u64, numbers: [u64; 5]) -> Vec<u8> {
    let tag = &tags.to_be_bytes()[2..];
    bytes(&[tag, tag, &shorts(&numbers)].concat())
}

/// A value without parts, by the name of its kind. Small numbers are drawn, from 1 to 255, so that two fields that change places are
/// seen. Those that may be empty are never so, but texts: their types differ in whether
/// empty ones are left out.
fn leaf(kind: &str, size: Size, drawn: u64) -> Vec<u8> {
    let of = |all: [Vec<u8>; 3]| all.into_iter().nth(size as usize).expect("there are three");
    let number = |largest: u64| of([head(0, 0), head(0, drawn), head(0, largest)]);
    let seat = u64::from(u16::MAX);
    match kind {
        "u8" => number(u8::MAX.into()),
        "u16" => number(u16::MAX.into()),
        "u32" => number(u32::MAX.into()),
        "u64" => number(u64::MAX),
        "i32" => of([0, -(drawn as i64), i32::MAX.into()].map(signed)),
        "i64" => of([0, -(drawn as i64), i64::MAX].map(signed)),
        "u128" => of([0, drawn.into(), u128::MAX].map(|number| bytes(&number.to_be_bytes()))),
        "bool" => vec![if size == Size::Zero { 0xf4 } else { 0xf5 }],
        "nothing" => list(&[]),
        "bytes" => of([vec![0], vec![1, 255], vec![170; 24]].map(|all| bytes(&all))),
        "text" => of(["", "Café", "a text of more than 23 bytes"].map(text)),
        "id" => of(["-", "s1", &"z".repeat(24)].map(text)),
        "name of a booking" => of(["-", "hold:068f372e3fcdfb0ac81a3f0c8c30d381", &"z".repeat(24)].map(text)),
        "currency" => of(["AAA", "EUR", "ZZZ"].map(text)),
        "instant" => of([0, 1_790_000_000_000 + drawn, u64::MAX].map(instant)),
        "slot" => of([slot(0, 1), slot(1_000, 2_000), slot(u64::MAX - 1_000, u64::MAX)]),
        "seat" => of([[0, 0], [3, 200], [seat, seat]].map(|both| bytes(&shorts(&both)))),
        "seats" => of([&[0, 0][..], &[3, 4, 3, 200], &[0, 0, 1, 0, seat, seat]].map(|all| bytes(&shorts(all)))),
        "priced seat" => of([priced(&[0, 0], &[0]), priced(&[3, 4], &[1_200]), priced(&[seat, seat], &[i64::MAX])]),
        "priced seats" => of([
            priced(&[0, 0], &[0]),
            priced(&[3, 4, 3, 5], &[1_200]),
            list(&[
                bytes(&shorts(&[0, 0, 1, 0, seat, seat])),
                list(&[offered_price(i64::MAX), plain_price(0)]),
                bytes(&[0, 1, 0]),
            ]),
        ]),
        "seat price" => {
            of([plain_price(0), offered_price(1_200), plain_price(i64::MAX)].map(|price| prices(1, &[price], &[])))
        }
        "seat prices" => of([
            prices(1, &[plain_price(0)], &[]),
            prices(2, &[offered_price(1_200), plain_price(900)], &[0, 1]),
            prices(3, &[offered_price(i64::MAX)], &[]),
        ]),
        "bits of seats" => of([1, 5, u64::MAX].map(|word: u64| bytes(&word.to_le_bytes()))),
        "charge" => {
            let highest = u32::MAX.into();
            let most = charge(u64::MAX, [u64::MAX, highest, highest, highest, highest]);
            of([charge(0, [0; 5]), charge(9, [1_000, 2, 60, 5, 120]), most])
        }
        kind => panic!("{kind} is a kind without values: they belong here"),
    }
}

/// Types that are made otherwise than the schema says, because not all that looks like them is such a value.
const REFUSAL: &str = "Refusal";
const LAYOUT: &str = "Layout";

/// The rows of a layout, which have seats, and its focal point.
fn rows(size: Size) -> [Vec<u8>; 2] {
    let point = |x: i64, y: i64| list(&[signed(x), signed(y)]);
    let (numbers, names) = (list(&[head(0, 0), signed(1), signed(-1)]), list(&[text("1"), text("1a")]));
    let plain = list(&[head(0, 0), head(0, 2), numbers, text("s1")]);
    let points = list(&[point(0, 100), point(-100_000_000, 100_000_000)]);
    let whole = list(&[head(0, 3), head(0, 2), list(&[head(0, 1), names]), text("-"), points, vec![0xf5]]);
    let row = list(&[text("A"), list(slice::from_ref(&plain))]);
    match size {
        Size::Zero => [list(&[]), vec![0xf6]],
        Size::Small => [list(&[row]), point(0, -100)],
        Size::Largest => [list(&[row, list(&[text("B"), list(&[plain, whole]), text("s1")])]), point(100_000_000, 0)],
    }
}

/// A field's bytes, and whether it is left out at the end of its struct.
type Field = (Vec<u8>, bool);

/// Makes values of one type.
struct Maker<'a> {
    schema: &'a Schema,
    /// Chooses variants. It depends on the type only, so another type changes nothing.
    seed: u64,
}

impl Maker<'_> {
    fn choose(&mut self, choices: usize) -> usize {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) as usize % choices
    }

    fn field(&mut self, shape: &Shape, size: Size, depth: u32) -> Field {
        let none_or = |maker: &mut Self, shape: &Shape| match size {
            Size::Zero => Vec::new(),
            Size::Small => vec![maker.value(shape, Size::Small, depth)],
            Size::Largest => vec![maker.value(shape, Size::Zero, depth), maker.value(shape, Size::Largest, depth)],
        };
        match shape {
            Shape::Option(_) if size == Size::Zero => (vec![0xf6], true),
            Shape::Option(shape) => (self.value(shape, size, depth), false),
            Shape::List(item) | Shape::Set(item) => {
                let mut values = none_or(self, item);
                if matches!(shape, Shape::Set(_)) {
                    values.dedup();
                }
                (list(&values), values.is_empty())
            }
            Shape::Map(entry) => {
                let (mut keys, values) = (none_or(self, &entry.0), none_or(self, &entry.1));
                // A key that is deep in a value is never more than zero.
                keys.dedup();
                let entries = keys.iter().zip(&values).flat_map(|(key, value)| [key.clone(), value.clone()]);
                ([head(5, keys.len() as u64), entries.flatten().collect()].concat(), keys.is_empty())
            }
            Shape::Leaf(kind) => {
                (leaf(kind, size, 1 + self.choose(255) as u64), size == Size::Zero && ["bool", "text"].contains(kind))
            }
            Shape::Array(shape, length) => match &**shape {
                Shape::Leaf("bytes") => (bytes(&vec![[0, 7, 255][size as usize]; *length]), false),
                Shape::List(shape) => {
                    let values: Vec<_> = (0..*length).map(|_| self.value(shape, size, depth)).collect();
                    (list(&values), false)
                }
                shape => panic!("no values are made of {shape} * {length}"),
            },
            Shape::Tuple(shapes) => {
                let values: Vec<_> = shapes.iter().map(|shape| self.value(shape, size, depth)).collect();
                (list(&values), false)
            }
            Shape::Result(both) => {
                let (number, shape) = if size == Size::Small { (1, &both.1) } else { (0, &both.0) };
                let value = self.value(shape, size, depth);
                (list(&[head(0, number), value]), false)
            }
            Shape::Named(name) => (self.named(name, if depth < DEPTH { size } else { Size::Zero }, depth + 1), false),
        }
    }

    fn value(&mut self, shape: &Shape, size: Size, depth: u32) -> Vec<u8> {
        self.field(shape, size, depth).0
    }

    /// A value in another one.
    fn named(&mut self, name: &str, size: Size, depth: u32) -> Vec<u8> {
        let schema = self.schema;
        if name == LAYOUT {
            return self.layout(size, depth);
        }
        match schema.get(name).expect("a type in a type is in the schema, too") {
            Definition::As(shape) => self.value(shape, size, depth),
            Definition::Struct(fields) => written(None, &self.fields(fields, |_| size, depth)),
            Definition::Enum(variants) => {
                // A refusal of several lines has none in it that is of several lines.
                let variants = if name == REFUSAL { &variants[1..] } else { &variants[..] };
                let chosen = if size == Size::Zero { 0 } else { self.choose(variants.len()) };
                let (number, _, fields) = &variants[chosen];
                written(Some(*number), &self.fields(fields, |_| size, depth))
            }
        }
    }

    fn layout(&mut self, size: Size, depth: u32) -> Vec<u8> {
        let [rows, focal] = rows(size);
        list(&[rows, focal, self.named("LayoutNames", size, depth)])
    }

    /// The fields by their numbers. `None` for a number that is no longer used.
    fn fields(&mut self, fields: &FieldShapes, size: impl Fn(u32) -> Size, depth: u32) -> Vec<Option<Field>> {
        let mut made = Vec::new();
        for (number, _, shape) in fields {
            made.resize_with(*number as usize, || None);
            made.push(Some(self.field(shape, size(*number), depth)));
        }
        made
    }

    /// Values of a struct, or of a variant with this number.
    fn all(&mut self, variant: Option<u32>, fields: &FieldShapes, values: &mut Vec<Vec<u8>>) {
        for size in SIZES {
            values.push(written(variant, &self.fields(fields, |_| size, 0)));
        }
        for (alone, _, shape) in fields {
            if self.field(shape, Size::Zero, 0).1 {
                let size = |number| if number == *alone { Size::Small } else { Size::Zero };
                values.push(written(variant, &self.fields(fields, size, 0)));
            }
        }
    }
}

/// A struct, or a variant with a number. Absent fields at its end are left out.
fn written(variant: Option<u32>, fields: &[Option<Field>]) -> Vec<u8> {
    let is_present = |field: &Option<Field>| field.as_ref().is_some_and(|(_, is_absent)| !is_absent);
    let present = fields.iter().rposition(is_present).map_or(0, |last| last + 1);
    let values =
        fields[..present].iter().map(|field| field.as_ref().map_or_else(|| vec![0xf6], |(value, _)| value.clone()));
    match variant {
        Some(number) if present == 0 => head(0, number.into()),
        number => list(&number.map(|number| head(0, number.into())).into_iter().chain(values).collect::<Vec<_>>()),
    }
}

/// Values of a type, none twice.
pub(crate) fn of(schema: &Schema, name: &str) -> Vec<Vec<u8>> {
    let seed = name.bytes().fold(0, |seed: u64, byte| seed.wrapping_mul(131).wrapping_add(byte.into()));
    let mut maker = Maker { schema, seed };
    let mut values = Vec::new();
    match schema.get(name).expect("the type is in the schema") {
        _ if name == LAYOUT => SIZES.iter().for_each(|size| values.push(maker.layout(*size, 0))),
        Definition::As(shape) => SIZES.iter().for_each(|size| values.push(maker.value(shape, *size, 0))),
        Definition::Struct(fields) => maker.all(None, fields, &mut values),
        Definition::Enum(variants) => {
            for (number, _, fields) in variants {
                maker.all(Some(*number), fields, &mut values);
            }
        }
    }
    // A refusal of lines has at least one.
    values.retain(|value| name != REFUSAL || *value != [0]);
    values.sort();
    values.dedup();
    values
}
