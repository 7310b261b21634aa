// Reservations that operators make at the desk, without a cart. This device remembers which of them it made.

import { askAny, token } from '../operator/ask.js';
import { hex } from '../connection.js';
import { read, write } from '../store.js';

const KEPT = 'reservations';
const MOST = 200;

/** Names of the bookings of a resource that this device made. */
export function mineOf(resource) {
  return (read(KEPT) || []).filter((each) => each.resource === resource).map((each) => each.booking);
}

/** Whether the nodes let this page reserve without asking for a token. */
export async function mayReserve(app) {
  if (token() !== '') return true;
  try {
    await askAny(app, 'admin.status', {});
    return true;
  } catch (error) {
    return error.kind !== 'no';
  }
}

/** Reserves a time. Returns the bookings, or throws a refusal. */
export async function reserve(app, resource, begin, end, details) {
  const booking = `desk-${hex(6)}`;
  const body = { resource, booking, begin, end, details: details || undefined };
  const ok = await askAny(app, 'resource.reserve', body, { changes: true });
  write(KEPT, [...(read(KEPT) || []), { resource, booking }].slice(-MOST));
  return ok.bookings;
}

/** Cancels a reservation. */
export async function cancel(app, resource, booking) {
  await askAny(app, 'resource.cancel', { resource, booking }, { changes: true });
  write(KEPT, (read(KEPT) || []).filter((each) => each.booking !== booking));
}
