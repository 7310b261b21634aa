//! Cuts the records of one pass into pieces that fit into a segment of the log.

use boxoffice_shard::Record;
use bytes::Bytes;

/// The records of one pass, in pieces that a segment of the log has room for. A follower that catches up receives more than that
/// at once. None of it is announced before all of it is durable. A crash leaves a beginning of it.
pub(crate) fn pieces(records: &[u8], room: usize) -> Vec<&[u8]> {
    if records.len() <= room {
        return vec![records];
    }
    let mut rest = Bytes::copy_from_slice(records);
    let (mut found, mut begin, mut end) = (Vec::new(), 0, 0);
    while !rest.is_empty() {
        Record::decode(&mut rest).expect("the engine has just encoded it");
        let next = records.len() - rest.len();
        if next - begin > room && end > begin {
            found.push(&records[begin..end]);
            begin = end;
        }
        end = next;
    }
    found.push(&records[begin..]);
    found
}

#[cfg(test)]
mod tests {
    use boxoffice_shard::{EntryKind, Position};

    use super::*;

    #[test]
    fn large_writes_are_split_at_records() {
        let mut records = Vec::new();
        for index in 1..=40u64 {
            let payload = Bytes::from(vec![7; usize::try_from(index % 9).unwrap() * 100]);
            let position = Position { index, term: 3 };
            Record::Entry { shard: 1, position, kind: EntryKind::Turns, payload }.encode(&mut records);
        }
        assert_eq!(pieces(&records, records.len()), [&records[..]]);
        for room in [1, 500, 2_000] {
            let found = pieces(&records, room);
            assert_eq!(found.concat(), records);
            for piece in found {
                let whole = Record::decode_all(Bytes::copy_from_slice(piece)).expect("whole records");
                assert!(piece.len() <= room || whole.len() == 1, "{} in {room}", piece.len());
            }
        }
    }
}
