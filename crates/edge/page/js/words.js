// The words for buyers, by the key that a translation uses. explain.js says how a template is read.
//
// Made of crates/core/src/refusal.rs by crates/wire/src/tests/codes.rs. Change the table, then run that with UPDATE_EXPECT=1.

export const WORDS = {
  'refusal.forbidden': 'This is another customer’s.',
  'refusal.rate_limited': 'Too much at once; please wait a moment.',
  'refusal.seats_taken': 'These seats were taken by somebody else a moment ago.',
  'refusal.seat_blocked': 'These seats are not for sale.',
  'refusal.not_enough_places': 'Only {free} places are left here. | No places are left here.',
  'refusal.no_adjacent_seats': 'There are not so many seats side by side any more ({free} are free). | No such seats are left.',
  'refusal.session_closed': 'Sale for this session is closed.',
  'refusal.limit_per_customer': 'One customer may have at most {max} of these.',
  'refusal.limit_per_order': 'One order may have at most {max} of these.',
  'refusal.share_reached': 'Others behind your connection hold many of these. Pay for what you hold, or try again in {retry_after_ms:span}.',
  'refusal.cart_not_active': 'This cart is closed already.',
  'refusal.cart_expired': 'The time of your cart ran out; what it held is free again.',
  'refusal.cart_empty': 'Nothing is held.',
  'refusal.too_many_lines': 'A cart has at most {limit} lines.',
  'refusal.hold_age_exceeded': 'This cart cannot be kept any longer; please pay, or begin anew.',
  'refusal.cart_differs': 'The cart has changed. Please look at it again before you pay.',
  'refusal.out_of_stock': '{shortages.held?}There is not so much left of it. Some is in other carts and may come back. | There is not so much left of it.',
  'refusal.slot_taken': 'Somebody else has this time.',
  'refusal.outside_hours': 'It is closed at this time.',
  'refusal.too_soon_or_far': 'This time is too soon, or too far away, to be booked.',
  'refusal.payment_declined': 'The payment was declined ({message:reason}). | The payment was declined.',
  'refusal.payment_pending': 'The payment is not decided yet.',
  'refusal.amount_mismatch': 'The gateway set aside another amount. It is given up.',
  'refusal.not_found': 'There is no such thing (any more).',
  'failure.busy': 'The box office is very busy. Please try again.',
  'failure.unknown': 'No answer came in time: it may have happened. The cart shows what is so.',
  'failure.not_ready': 'No node could answer in time. Please try again.',
  'failure.read_only': 'This node cannot write at the moment. Please try again.',
};
