//! Pushing to lists of few items.

use alloc::vec::Vec;

/// Adds to a list with room for the item and no more, while the list is short. A vector that grows by itself makes room for
/// four items at once, and an event or an effect takes 350 bytes.
pub(crate) fn push_exact<T>(list: &mut Vec<T>, item: T) {
    if list.len() == list.capacity() && list.len() < 4 {
        list.reserve_exact(1);
    }
    list.push(item);
}
