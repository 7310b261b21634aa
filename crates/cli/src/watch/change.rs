//! Changes between two maps in words.

use boxoffice_core::seat::SeatState;
use boxoffice_wire::repr::seat_state_text;

use crate::draw::Names;

/// The seats whose state has changed, by index. All seats if there was no map before.
pub fn changes(before: &[SeatState], now: &[SeatState]) -> Vec<(u32, SeatState)> {
    let changed = |index: &usize| before.get(*index) != Some(&now[*index]);
    (0..now.len()).filter(changed).map(|index| (index as u32, now[index])).collect()
}

/// Changes in words: `B5–B7 held; C1 free`.
pub fn in_words(changes: &[(u32, SeatState)], names: &Names) -> String {
    let of = |state: SeatState| -> Vec<u32> {
        changes.iter().filter(|(_, now)| *now == state).map(|(index, _)| *index).collect()
    };
    [SeatState::Held, SeatState::Sold, SeatState::Free, SeatState::Blocked]
        .into_iter()
        .filter_map(|state| {
            let seats = of(state);
            (!seats.is_empty()).then(|| format!("{} {}", names.list(&seats), seat_state_text(state)))
        })
        .collect::<Vec<_>>()
        .join("; ")
}
