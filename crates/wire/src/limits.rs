//! The limits of the protocol and its close codes, by name.

/// How a port with TLS begins its answer to a request in plain text.
pub const SPEAKS_TLS: &str = "this port speaks TLS";

/// The version of the protocol.
pub const PROTOCOL_VERSION: u32 = 1;

/// The longest frame a client may send, in bytes.
pub const FRAME_BYTES_MAX: usize = 64 * 1024;

/// The longest frame of `batch`, `product.put` and `resource.put`, which importers send, in bytes.
pub const IMPORT_FRAME_BYTES_MAX: usize = 1024 * 1024;

/// The longest frame of `hall.put`, in bytes. A layout with the maximum of seats, each with its own position, fits in its full
/// form, in both encodings.
pub const HALL_FRAME_BYTES_MAX: usize = 8 * 1024 * 1024;

/// The longest frame that a client reads, in bytes. A layout with the maximum of seats, each with its own position, fits.
pub const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The depth of nested maps and lists. The frame itself is the first level.
pub const DEPTH_MAX: usize = 16;

/// The longest request id, in bytes.
pub const REQUEST_ID_BYTES_MAX: usize = 64;

/// The maximum of items of a `batch`.
pub const BATCH_ITEMS_MAX: usize = 1_000;

/// The maximum of seats in the halls of one `batch`, since a few bytes of a layout make thousands of seats in memory.
pub const BATCH_SEATS_MAX: u32 = 1_000_000;

/// The maximum of lines of a cart.
pub const CART_LINES_MAX: usize = boxoffice_core::cart::CART_LINES_MAX;

/// The maximum of entries of one page of a search.
pub const PAGE_ENTRIES_MAX: u32 = boxoffice_core::cursor::PAGE_MAX;

/// Shards of a cluster, with the directory.
pub const SHARDS_MAX: usize = 4_097;

/// The default number of entries of a page.
pub const PAGE_ENTRIES: u32 = 100;

/// The longest deadline of a request, in milliseconds. A longer one is shortened.
pub const DEADLINE_MS_MAX: u64 = 60_000;

/// The default deadline of a request, in milliseconds.
pub const DEADLINE_MS: u64 = 10_000;

/// Requests under way on one connection. Further commands are `busy`.
pub const REQUESTS_UNDER_WAY_MAX: usize = 256;

/// Feeds of one connection.
pub const FEEDS_MAX: usize = 1_024;

/// How long a connection may take to send its first frame, in milliseconds.
pub const FIRST_FRAME_MS: u64 = 10_000;

/// How long a frame may take to arrive, in milliseconds.
pub const WHOLE_FRAME_MS: u64 = 10_000;

/// How often the server pings, in milliseconds.
pub const PING_MS: u64 = 15_000;

/// How long the server waits for a pong, in milliseconds.
pub const PONG_MS: u64 = 10_000;

/// The longest name (of a venue, a hall, a title, a product, a resource, an area, a city, a member of a cast), in bytes.
pub const NAME_BYTES_MAX: usize = boxoffice_core::names::NAME_BYTES_MAX;

/// The longest comment, in bytes.
pub const COMMENTS_BYTES_MAX: usize = boxoffice_core::text::Comments::BYTES_MAX;

/// The longest details of a booking, in bytes.
pub const DETAILS_BYTES_MAX: usize = boxoffice_core::command::Details::BYTES_MAX;

/// The longest name of a means of payment, and of a payer's or a gateway's reference, in bytes.
pub const PAYMENT_TEXT_BYTES_MAX: usize = 256;

/// The longest source of a payment through the gateway, in bytes.
pub const SOURCE_BYTES_MAX: usize = boxoffice_core::payment::SOURCE_BYTES_MAX;

/// The longest text of a shipping (recipient, address, method), in bytes.
pub const SHIPPING_BYTES_MAX: usize = 1_024;

/// The longest reason of a refund or a canceled session, in bytes. Every cart that holds something gets it.
pub const REASON_BYTES_MAX: usize = boxoffice_core::text::Reason::BYTES_MAX;

/// The longest text cursor, in bytes.
pub const CURSOR_BYTES_MAX: usize = 512;

/// The maximum of names in a cast.
pub const CAST_MAX: usize = 100;

/// The maximum of properties of a product or a resource.
pub const PROPERTIES_MAX: usize = 64;

/// The longest name of a property, in bytes.
pub const PROPERTY_NAME_BYTES_MAX: usize = 64;

/// The longest value of a property, in bytes.
pub const PROPERTY_VALUE_BYTES_MAX: usize = 1_024;

/// The longest blob of a product, in bytes.
pub const BLOB_BYTES_MAX: usize = 1_024;

/// The maximum of units of a product. JSON numbers are exact up to here.
pub const STOCK_MAX: u64 = boxoffice_core::money::AMOUNT_MAX as u64;

/// The maximum of areas of a session.
pub const AREAS_MAX: usize = boxoffice_core::session::AREAS_MAX;

/// The maximum of places of an area.
pub const AREA_CAPACITY_MAX: u32 = boxoffice_core::session::AREA_PLACES_MAX;

/// The maximum of simultaneous bookings of a resource.
pub const RESOURCE_CAPACITY_MAX: u32 = boxoffice_core::calendar::CAPACITY_MAX;

/// The longest time that can be booked or searched, in milliseconds: 366 days.
pub const INTERVAL_MS_MAX: u64 = 366 * 24 * 60 * 60 * 1000;

/// The longest buffer before or after a booking, in milliseconds.
pub const BUFFER_MS_MAX: u64 = boxoffice_core::calendar::BUFFER_MAX_MS;

/// The maximum of a resource's notice and horizon, in milliseconds: ten years.
pub const AHEAD_MS_MAX: u64 = 3_660 * 24 * 60 * 60 * 1000;

/// The longest title, in milliseconds: 31 days.
pub const DURATION_MS_MAX: u64 = 31 * 24 * 60 * 60 * 1000;

/// The longest address of a venue, in bytes.
pub const ADDRESS_BYTES_MAX: usize = 500;

/// The longest name of a zone, in bytes.
pub const ZONE_BYTES_MAX: usize = 64;

/// The maximum of spans of opening hours of one day.
pub const SPANS_MAX: usize = 24;

/// The maximum of days with opening hours of their own.
pub const EXCEPTIONS_MAX: usize = 1_000;

/// The maximum of bookings of a series.
pub const SERIES_MAX: u32 = boxoffice_core::calendar::OCCURRENCES_MAX as u32;

/// The maximum of days, weeks or months between two bookings of a series.
pub const SERIES_INTERVAL_MAX: u32 = boxoffice_core::calendar::INTERVAL_MAX as u32;

/// The longest client name in a hello, in bytes.
pub const CLIENT_NAME_BYTES_MAX: usize = 100;

/// The maximum of prices of a session, one for each category.
pub const CATEGORIES_MAX: usize = boxoffice_core::layout::LAYOUT_CATEGORIES_MAX;

/// Close codes, and what a client does after them.
pub mod close {
    /// The frames are not of this protocol. Do not reconnect.
    pub const PROTOCOL: u16 = 4000;
    /// The credentials are not valid. Do not reconnect.
    pub const UNAUTHENTICATED: u16 = 4001;
    /// No common version. Do not reconnect.
    pub const VERSION: u16 = 4002;
    /// Text instead of bytes, or the other way round. Do not reconnect.
    pub const WRONG_FRAME_TYPE: u16 = 4003;
    /// Banned, or a page of a foreign origin. Do not reconnect.
    pub const BANNED: u16 = 4004;
    /// The token has expired. Reconnect with another, with back-off.
    pub const TOKEN_EXPIRED: u16 = 4101;
    /// No first frame in time. Reconnect with back-off.
    pub const NO_HELLO: u16 = 4102;
    /// No pong in time. Reconnect with back-off.
    pub const NO_PONG: u16 = 4103;
    /// Too many requests. Reconnect with back-off.
    pub const TOO_MANY_REQUESTS: u16 = 4104;
    /// The client does not read fast enough. Reconnect with back-off.
    pub const SLOW_READER: u16 = 4106;
    /// The node is draining. Reconnect now, to another node.
    pub const DRAINING: u16 = 4200;
    /// Another node serves this. Reconnect now.
    pub const MOVED: u16 = 4201;
    /// A message is too big (RFC 6455).
    pub const TOO_BIG: u16 = 1009;

    /// The client's action after a close.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Advice {
        /// Do not reconnect. It would end the same way.
        Stay,
        /// Reconnect with exponential back-off and full jitter.
        BackOff,
        /// Reconnect at once.
        Now,
    }

    /// The advice of a close code. `None` if the connection broke without one.
    pub fn advice(code: Option<u16>) -> Advice {
        match code {
            Some(4000..=4099 | TOO_BIG) => Advice::Stay,
            Some(4200..=4299) => Advice::Now,
            Some(_) | None => Advice::BackOff,
        }
    }
}
