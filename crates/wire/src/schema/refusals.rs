//! Every refusal by number, with its name and details.

/// A refusal as it is documented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusalRow {
    /// The number, which never changes.
    pub code: u16,
    /// The name, which never changes.
    pub name: &'static str,
    /// The fields besides number, name and message.
    pub details: &'static [&'static str],
    /// The message.
    pub meaning: &'static str,
}

const fn row(code: u16, name: &'static str, details: &'static [&'static str], meaning: &'static str) -> RefusalRow {
    RefusalRow { code, name, details, meaning }
}

/// All refusals.
pub const REFUSALS: &[RefusalRow] = &[
    row(101, "bad_request", &[], "the request is not what the op asks for"),
    row(102, "unknown_op", &[], "there is no such op"),
    row(103, "too_large", &[], "a body, a list or a text is too big"),
    row(104, "request_id_missing", &[], "it changes something and came without a request id"),
    row(105, "request_id_reused", &[], "the request id came before with another body"),
    row(106, "in_progress", &[], "the first request with this id is still under way"),
    row(107, "unauthenticated", &[], "the op needs a key, or what was shown is none"),
    row(108, "forbidden", &[], "not allowed to the caller"),
    row(109, "rate_limited", &["retry_after_ms"], "the caller has taken enough for now"),
    row(110, "unsupported_version", &[], "no version in common"),
    row(201, "seats_taken", &["seats", "states"], "seats are held or sold"),
    row(202, "no_such_seat", &["seats"], "the layout has no such seats"),
    row(203, "duplicate_seat", &["seats"], "seats are named more than once"),
    row(204, "seat_blocked", &["seats", "states"], "the box office keeps seats off sale"),
    row(205, "not_enough_places", &["area", "free"], "the area has fewer places left"),
    row(206, "no_adjacent_seats", &["count", "free"], "no run of that many neighbouring seats is free"),
    row(207, "session_closed", &[], "the session does not sell: not open yet, or over"),
    row(208, "hall_occupied", &["session"], "another session is in the hall at that time"),
    row(209, "limit_per_customer", &["quota", "max", "taken"], "the customer has as many as one customer may have"),
    row(210, "limit_per_order", &["entity", "max"], "more than one order may have"),
    row(
        211,
        "share_reached",
        &["entity", "held", "retry_after_ms"],
        "those behind the caller's connection hold their share of what is sold",
    ),
    row(301, "cart_not_active", &[], "the cart is done or canceled"),
    row(302, "cart_expired", &[], "the cart's deadline has passed"),
    row(303, "no_such_line", &["line"], "the cart has no such line"),
    row(304, "cart_empty", &[], "there is nothing to check out"),
    row(305, "not_your_cart", &[], "the token does not open this cart"),
    row(306, "too_many_lines", &["limit"], "the cart has as many lines as a cart may have"),
    row(307, "hold_age_exceeded", &[], "the cart has reached the highest age of an active cart"),
    row(308, "cart_differs", &["expected", "actual"], "the cart is not what the buyer expects to pay for"),
    row(401, "out_of_stock", &["shortages"], "products have fewer units left"),
    row(402, "bad_quantity", &[], "a quantity that cannot be"),
    row(403, "no_such_product", &["product"], "there is no such product"),
    row(501, "slot_taken", &["conflicts"], "the time is taken"),
    row(502, "bad_interval", &[], "a time that cannot be"),
    row(503, "id_in_use", &["booking"], "there is a booking with this id"),
    row(504, "outside_hours", &[], "not within opening hours"),
    row(505, "no_such_booking", &["booking"], "there is no such booking"),
    row(506, "too_soon_or_far", &[], "sooner than the notice or later than the horizon allows"),
    row(601, "payment_declined", &[], "the gateway declined"),
    row(602, "payment_pending", &[], "how the payment ended is not known yet; ask again with the same request id"),
    row(603, "amount_mismatch", &["asked", "got"], "the gateway set aside another amount; it is given up"),
    row(701, "not_found", &[], "there is no such thing"),
    row(702, "already_exists_differently", &[], "it exists already with other content"),
    row(703, "currency_fixed", &["entity", "currency"], "what it is sold in never changes"),
    row(801, "no_such_node", &["node"], "the cluster has no such member"),
    row(802, "node_gone", &["node"], "the member was removed; its id is never given again"),
    row(803, "disk_differs", &["node"], "the member has another disk"),
    row(804, "quorum_would_be_lost", &["node", "shards"], "shards would have no majority of their voters any more"),
    row(805, "placement_stale", &["version"], "the cluster has changed since the placement was thought out"),
    row(806, "not_drainable", &["node"], "the member cannot be drained, or kept from it"),
    row(807, "already_founded", &[], "the cluster was founded already, by another disk"),
    row(808, "node_in_use", &["node", "shards"], "the member still has copies of shards"),
    row(809, "too_many_nodes", &["max"], "every id of a member was given"),
    row(810, "wrong_secret", &[], "the machine that wants to join does not know the secret of the cluster's nodes"),
    row(811, "too_few_left", &["node", "serving"], "each shard would have a single voter; it may be forced"),
    row(812, "not_invited", &[], "the machine shows no invitation that is valid for it"),
];
