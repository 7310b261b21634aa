//! Seats and sets of them.

use alloc::vec::Vec;
use core::slice;

use boxoffice_declare::Stored;

use crate::stored::{self, Decode, Encode, Error, Reader, Schema, Shape, Writer, append_short, take_short};

/// The most seats one hold may ask for.
pub const HOLD_SEATS_MAX: usize = 20;

/// A seat by its row in the layout and its place in the row, both from 0. The layout has the labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seat {
    pub row: u16,
    /// Gaps are not counted.
    pub seat: u16,
}

impl Seat {
    /// Appends the seat, in two to six bytes.
    pub(crate) fn append(self, bytes: &mut Vec<u8>) {
        append_short(self.row.into(), bytes);
        append_short(self.seat.into(), bytes);
    }

    /// Takes a seat that [`Self::append`] has written.
    pub(crate) fn take(bytes: &mut &[u8]) -> Result<Seat, Error> {
        let mut next = || u16::try_from(take_short(bytes)?).map_err(|_| Error::message("a row has too many seats"));
        Ok(Seat { row: next()?, seat: next()? })
    }
}

// Frozen: a byte string of one seat or of many.
impl Encode for Seat {
    fn encode(&self, out: &mut Writer) {
        Seat::encode_list(slice::from_ref(self), out);
    }

    fn encode_list(list: &[Seat], out: &mut Writer) {
        let mut bytes = Vec::with_capacity(2 * list.len());
        list.iter().for_each(|seat| seat.append(&mut bytes));
        out.bytes(&bytes);
    }
}

impl Decode for Seat {
    fn shape(_: &mut Schema) -> Shape {
        Shape::Leaf("seat")
    }

    fn list_shape(_: &mut Schema) -> Shape {
        Shape::Leaf("seats")
    }

    fn decode(from: &mut Reader<'_>) -> Result<Seat, Error> {
        let mut bytes = stored::bytes(from)?;
        let seat = Seat::take(&mut bytes)?;
        if bytes.is_empty() { Ok(seat) } else { Err(Error::message("a seat is followed by another")) }
    }

    fn decode_list(from: &mut Reader<'_>) -> Result<Vec<Seat>, Error> {
        let mut bytes = stored::bytes(from)?;
        let mut seats = Vec::with_capacity(bytes.len() / 2);
        while !bytes.is_empty() {
            seats.push(Seat::take(&mut bytes)?);
        }
        Ok(seats)
    }
}

/// The seats of a hold. There is at least one, none is twice, and they are in ascending order.
///
/// How many there may be is checked by [`SeatSet::new`], when a request is read. What is stored is read in any number, so that
/// another bound makes nothing unreadable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeatSet(Vec<Seat>);

impl Encode for SeatSet {
    fn encode(&self, out: &mut Writer) {
        self.0.encode(out);
    }
}

impl Decode for SeatSet {
    fn shape(_: &mut Schema) -> Shape {
        Shape::Leaf("seats")
    }

    fn decode(from: &mut Reader<'_>) -> Result<SeatSet, Error> {
        let seats = Vec::<Seat>::decode(from)?;
        let is_set = !seats.is_empty() && seats.windows(2).all(|pair| pair[0] < pair[1]);
        if is_set { Ok(SeatSet(seats)) } else { Err(Error::message("seats of a set are missing or out of order")) }
    }
}

/// Why a list of seats does not form a [`SeatSet`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SeatSetError {
    Empty,
    /// More than [`HOLD_SEATS_MAX`].
    TooMany,
    /// These seats are named more than once.
    Duplicate(Vec<Seat>),
}

impl SeatSet {
    /// The set of these seats.
    ///
    /// # Errors
    /// [`SeatSetError`] if there are none, more than twenty, or one of them twice.
    pub fn new(seats: impl IntoIterator<Item = Seat>) -> Result<SeatSet, SeatSetError> {
        let seats: Vec<Seat> = seats.into_iter().take(HOLD_SEATS_MAX + 1).collect();
        if seats.len() > HOLD_SEATS_MAX { Err(SeatSetError::TooMany) } else { SeatSet::of_any_number(seats) }
    }

    /// The set of these seats, however many they are: those of a hold that was granted.
    ///
    /// # Errors
    /// [`SeatSetError`] if there are none, or one of them twice.
    pub fn of_any_number(mut seats: Vec<Seat>) -> Result<SeatSet, SeatSetError> {
        if seats.is_empty() {
            return Err(SeatSetError::Empty);
        }
        seats.sort_unstable();
        let mut twice: Vec<Seat> = seats.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
        twice.dedup();
        if twice.is_empty() { Ok(SeatSet(seats)) } else { Err(SeatSetError::Duplicate(twice)) }
    }

    /// The seats, ascending.
    pub fn as_slice(&self) -> &[Seat] {
        &self.0
    }

    /// How many seats there are, never 0.
    #[expect(clippy::len_without_is_empty, reason = "a seat set is never empty")]
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

/// The state of a seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Stored)]
#[repr(u8)]
pub enum SeatState {
    #[n(0)]
    Free = 0,
    /// In a cart.
    #[n(1)]
    Held = 1,
    #[n(2)]
    Sold = 2,
    /// Kept off sale by the box office.
    #[n(3)]
    Blocked = 3,
}
