//! A MessagePack encoder and decoder independent of the program's own, so that tests pin the wire format.

use serde_json::{Map, Value};

/// Encodes a value. Numbers are integers or 64-bit floats.
pub(crate) fn pack(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out, value);
    out
}

fn write(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => out.push(0xc0),
        Value::Bool(truth) => out.push(0xc2 | u8::from(*truth)),
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(whole @ 0..=0x7f), _) => out.push(whole as u8),
            (Some(whole), _) => {
                out.push(0xcf);
                out.extend(whole.to_be_bytes());
            }
            (None, Some(whole)) => {
                out.push(0xd3);
                out.extend(whole.to_be_bytes());
            }
            (None, None) => {
                out.push(0xcb);
                out.extend(number.as_f64().expect("a number").to_be_bytes());
            }
        },
        Value::String(text) => {
            length(out, text.len(), (0xa0, 32), &[0xd9, 0xda, 0xdb]);
            out.extend(text.as_bytes());
        }
        Value::Array(values) => {
            length(out, values.len(), (0x90, 16), &[0xdc, 0xdd]);
            values.iter().for_each(|value| write(out, value));
        }
        Value::Object(fields) => {
            length(out, fields.len(), (0x80, 16), &[0xde, 0xdf]);
            for (name, value) in fields {
                write(out, &Value::String(name.clone()));
                write(out, value);
            }
        }
    }
}

/// A length: within the marker if it fits, else in the fewest bytes that a marker exists for.
fn length(out: &mut Vec<u8>, length: usize, (short, short_end): (u8, usize), long: &[u8]) {
    if length < short_end {
        out.push(short | length as u8);
        return;
    }
    let digits = (length as u32).to_be_bytes();
    let one_byte = long.len() == 3;
    match length {
        0..=0xff if one_byte => out.extend([long[0], digits[3]]),
        0..=0xffff => out.extend([long[usize::from(one_byte)], digits[2], digits[3]]),
        _ => {
            out.push(long[1 + usize::from(one_byte)]);
            out.extend(digits);
        }
    }
}

/// Decodes exactly one value. Binary data becomes a list of numbers.
pub(crate) fn unpack(bytes: &[u8]) -> Value {
    let mut rest = bytes;
    let value = read(&mut rest);
    assert!(rest.is_empty(), "{} bytes follow the end of a frame of the server", rest.len());
    value
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (taken, left) = rest.split_at_checked(count).expect("the server's frame is whole");
    *rest = left;
    taken
}

fn number(rest: &mut &[u8], digits: usize) -> u64 {
    take(rest, digits).iter().fold(0, |number, digit| number << 8 | u64::from(*digit))
}

fn read(rest: &mut &[u8]) -> Value {
    let marker = take(rest, 1)[0];
    match marker {
        0x00..=0x7f => marker.into(),
        0x80..=0x8f => map(rest, u64::from(marker & 0x0f)),
        0x90..=0x9f => list(rest, u64::from(marker & 0x0f)),
        0xa0..=0xbf => text(rest, u64::from(marker & 0x1f)),
        0xc0 => Value::Null,
        0xc2 => false.into(),
        0xc3 => true.into(),
        0xc4..=0xc6 => {
            let count = number(rest, 1 << (marker - 0xc4));
            Value::Array(take(rest, count as usize).iter().map(|byte| Value::from(*byte)).collect())
        }
        0xca => f64::from(f32::from_bits(number(rest, 4) as u32)).into(),
        0xcb => f64::from_bits(number(rest, 8)).into(),
        0xcc..=0xcf => number(rest, 1 << (marker - 0xcc)).into(),
        0xd0 => (number(rest, 1) as i8).into(),
        0xd1 => (number(rest, 2) as i16).into(),
        0xd2 => (number(rest, 4) as i32).into(),
        0xd3 => (number(rest, 8) as i64).into(),
        0xd9..=0xdb => {
            let count = number(rest, 1 << (marker - 0xd9));
            text(rest, count)
        }
        0xdc | 0xdd => {
            let count = number(rest, 2 << (marker - 0xdc));
            list(rest, count)
        }
        0xde | 0xdf => {
            let count = number(rest, 2 << (marker - 0xde));
            map(rest, count)
        }
        0xe0..=0xff => (marker as i8).into(),
        other => panic!("the server sent MessagePack marker {other:#x}, which the protocol does not use"),
    }
}

fn text(rest: &mut &[u8], bytes: u64) -> Value {
    str::from_utf8(take(rest, bytes as usize)).expect("the server's text is UTF-8").into()
}

fn list(rest: &mut &[u8], count: u64) -> Value {
    (0..count).map(|_| read(rest)).collect()
}

fn map(rest: &mut &[u8], count: u64) -> Value {
    let mut fields = Map::new();
    for _ in 0..count {
        let Value::String(name) = read(rest) else { panic!("a field of the server has no name") };
        let before = fields.insert(name.clone(), read(rest));
        assert!(before.is_none(), "the server sent the field {name} twice");
    }
    Value::Object(fields)
}
