// Refusals and failures in the words of a box office.

const TEXTS = {
  seats_taken: () => 'These seats were taken by somebody else a moment ago.',
  seat_blocked: () => 'These seats are not for sale.',
  not_enough_places: ({ free }) => (free > 0 ? `Only ${free} places are left here.` : 'No places are left here.'),
  no_adjacent_seats: ({ free }) => (free > 0 ? `There are not so many seats side by side any more (${free} are free).` : 'No such seats are left.'),
  session_closed: () => 'Sale for this session is closed.',
  limit_per_customer: ({ max }) => `One customer may have at most ${max} of these.`,
  limit_per_order: ({ max }) => `One order may have at most ${max} of these.`,
  share_reached: ({ retry_after_ms: ms = 0 }) => `Others behind your connection hold many of these. Pay for what you hold, or try again in ${span(ms)}.`,
  cart_expired: () => 'The time of your cart ran out; what it held is free again.',
  cart_not_active: () => 'This cart is closed already.',
  cart_empty: () => 'Nothing is held.',
  cart_differs: () => 'The cart has changed. Please look at it again before you pay.',
  too_many_lines: ({ limit }) => `A cart has at most ${limit} lines.`,
  hold_age_exceeded: () => 'This cart cannot be kept any longer; please pay, or begin anew.',
  out_of_stock: ({ shortages = [] }) => (shortages.some(({ held }) => held > 0)
    ? 'There is not so much left of it. Some is in other carts and may come back.'
    : 'There is not so much left of it.'),
  slot_taken: () => 'Somebody else has this time.',
  outside_hours: () => 'It is closed at this time.',
  too_soon_or_far: () => 'This time is too soon, or too far away, to be booked.',
  payment_declined: ({ message }) => `The payment was declined${reason(message)}.`,
  payment_pending: () => 'The payment is not decided yet.',
  amount_mismatch: () => 'The gateway set aside another amount. It is given up.',
  not_found: () => 'There is no such thing (any more).',
  forbidden: () => 'This is another customer’s.',
  rate_limited: () => 'Too much at once; please wait a moment.',
  unknown: () => 'No answer came in time: it may have happened. The cart shows what is so.',
  not_ready: () => 'No node could answer in time. Please try again.',
  busy: () => 'The box office is very busy. Please try again.',
  read_only: () => 'This node cannot write at the moment. Please try again.',
};

/** The text of an error for the buyer. */
export function explain(error) {
  const text = TEXTS[error.name2];
  return text ? text(error.details || {}) : error.message || 'Something went wrong.';
}

/** A span in minutes, or in hours if it is long. */
function span(ms) {
  const minutes = Math.max(1, Math.ceil(ms / 60_000));
  if (minutes >= 120) return `${Math.ceil(minutes / 60)} hours`;
  return minutes === 1 ? 'a minute' : `${minutes} minutes`;
}

function reason(message = '') {
  const [, why] = message.split(/declined:\s*/);
  return why ? ` (${why})` : '';
}
