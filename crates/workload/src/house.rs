//! The house: the venues, sessions and seats of a run, as numbers, and their ids on the server.

use boxoffice_core::{id::Id, seat::Seat};

/// The longest prefix of a house's ids, in bytes. The rest of an id needs room.
pub const PREFIX_BYTES_MAX: usize = 32;

/// Groups of identical venues with one hall each. Each run has its own prefix, so runs on one server do not conflict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct House {
    /// The prefix of every id: at most [`PREFIX_BYTES_MAX`] bytes, of characters that ids may have.
    pub prefix: String,
    /// The number of groups. Each has its own venues.
    pub groups: u32,
    /// The number of venues in a group.
    pub venues: u32,
    /// The number of sessions of a venue, one after the other in its one hall.
    pub sessions: u32,
    /// The number of rows of a hall.
    pub rows: u16,
    /// The number of seats of a row.
    pub seats: u16,
}

impl House {
    /// The number of sessions of a group.
    pub fn sessions_of_group(&self) -> u32 {
        self.venues * self.sessions
    }

    /// The number of sessions of all groups.
    pub fn sessions_all(&self) -> u32 {
        self.groups * self.sessions_of_group()
    }

    /// The number of venues of all groups.
    pub fn venues_all(&self) -> u32 {
        self.groups * self.venues
    }

    /// The number of seats of one session.
    pub fn seats_of_session(&self) -> u32 {
        u32::from(self.rows) * u32::from(self.seats)
    }

    /// The number of session `index` of `group`.
    ///
    /// # Panics
    /// If the group has no such session.
    pub fn session_number(&self, group: u32, index: u32) -> u32 {
        assert!(group < self.groups && index < self.sessions_of_group(), "no session {index} in group {group}");
        group * self.sessions_of_group() + index
    }

    /// The id of a venue, by its number among all venues.
    ///
    /// # Panics
    /// If the prefix does not make valid ids. Check the prefix before you make a house.
    pub fn venue_id(&self, venue: u32) -> Id {
        self.id(&format!("{}-v{venue}", self.prefix))
    }

    /// The id of the one hall of a venue.
    pub fn hall_id(&self, venue: u32) -> Id {
        self.id(&format!("{}-v{venue}-hall", self.prefix))
    }

    /// The id of a session, by its number among all sessions. The sessions of a venue have consecutive numbers.
    pub fn session_id(&self, session: u32) -> Id {
        self.id(&format!("{}-s{session}", self.prefix))
    }

    /// The venue of a session.
    pub fn venue_of(&self, session: u32) -> u32 {
        session / self.sessions
    }

    /// The index of a session among those of its venue, in order of time.
    pub fn index_in_venue(&self, session: u32) -> u32 {
        session % self.sessions
    }

    /// The seat with this index in layout order.
    ///
    /// # Panics
    /// If the session has no such seat.
    pub fn seat(&self, index: u32) -> Seat {
        assert!(index < self.seats_of_session(), "no seat {index} among {}", self.seats_of_session());
        let row = index / u32::from(self.seats);
        let seat = index % u32::from(self.seats);
        Seat { row: row as u16, seat: seat as u16 }
    }

    fn id(&self, text: &str) -> Id {
        Id::new(text).unwrap_or_else(|| panic!("the house's prefix {:?} does not make valid ids", self.prefix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn house() -> House {
        House { prefix: "r1".into(), groups: 2, venues: 3, sessions: 4, rows: 5, seats: 16 }
    }

    #[test]
    fn sessions_are_numbered_group_by_group_and_venue_by_venue() {
        let house = house();
        assert_eq!(house.sessions_all(), 24);
        assert_eq!(house.session_number(1, 5), 17);
        assert_eq!(house.venue_of(17), 4);
        assert_eq!(house.index_in_venue(17), 1);
        assert_eq!(house.session_id(17).as_str(), "r1-s17");
        assert_eq!(house.hall_id(4).as_str(), "r1-v4-hall");
    }

    #[test]
    fn seats_are_numbered_along_the_rows() {
        assert_eq!(house().seat(0), Seat { row: 0, seat: 0 });
        assert_eq!(house().seat(16), Seat { row: 1, seat: 0 });
        assert_eq!(house().seat(79), Seat { row: 4, seat: 15 });
    }

    #[test]
    #[should_panic(expected = "no seat 80 among 80")]
    fn an_index_beyond_the_last_seat_panics() {
        house().seat(80);
    }
}
