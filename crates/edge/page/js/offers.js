// Price types and offers of a session: what is on sale at an instant, as which price types, and at what price. The rules are those
// of crates/core/src/session/pricing.rs, so that the page shows the price that a hold will have.
//
// A zone is `{category: id}` or `{area: id}`. Instants are of the node's clock, in milliseconds since 1970.

import { nameFor } from './names.js';

/** A session without price types has one without an id. */
const PLAIN = [{ id: null }];

const typesOf = (session) => (session.price_types?.length ? session.price_types : PLAIN);

/** Whether a hold names price types. */
export const hasTypes = (session) => Boolean(session.price_types?.length);

/** Whether the buyer has price types to choose from. */
export const isChoice = (session) => session.price_types?.length > 1;

/** The name of a price type or an offer for people. */
export const nameOf = ({ id, name, names }, languages) => nameFor(names, name || id, languages);

/** The name of the price type or offer with this id in one of the lists of a session. Its id if the session has it no more. */
export function nameIn(list, id, languages) {
  return nameOf((list || []).find((each) => each.id === id) || { id }, languages);
}

/** What a type costs in a zone without an offer, in minor units. Null if it is not sold there. */
function listPrice(session, type, zone) {
  // The prices of the first type are those of the session and of its areas.
  if (type !== typesOf(session)[0]) return (zone.area ? type.area_prices?.[zone.area] : type.prices?.[zone.category]) ?? null;
  const price = zone.area ? session.areas?.find(({ id }) => id === zone.area)?.price : session.prices?.[zone.category];
  return price?.amount ?? null;
}

/** The price under an offer, in minor units. */
export function priceUnder({ set_price: set, amount_off: amount, rate_off: rate }, list) {
  if (set !== undefined) return set;
  if (amount !== undefined) return Math.max(0, list - amount);
  // The product of a price and a rate may be larger than a number is exact.
  return rate === undefined ? list : list - Number((2n * BigInt(list) * BigInt(rate) + 10_000n) / 20_000n);
}

const hasEnded = ({ closed, until }, now) => Boolean(closed) || (until !== undefined && Date.parse(until) <= now);
const waits = (session, { id, from }) => from !== undefined && !session.sale?.opened?.includes(id);

/** Whether only what an offer sells is on sale. A session whose offers are all the desk's, or need codes, tells none of them. */
export const hasOffers = ({ offers, sale }) => offers?.length > 0 || Boolean(sale?.desk_only);

/**
 * What a code opens. Guests are told nothing of the offers of codes, so with a code every price type may be on sale. What no open
 * offer sells to everybody is shown at its list price, and the hold tells the price.
 */
const UNTOLD = { id: '', isUntold: true };

/** A session as it may look to a buyer with a code. */
export const withCode = (session) => ({ ...session, offers: [...(session.offers || []), UNTOLD] });

/** The offers that are open at an instant. */
const openOffers = (session, now) => (session.offers || []).filter((offer) => !hasEnded(offer, now) && !waits(session, offer));

/** When the sale opens, if no offer is open and one will be. Else null. */
export function opensAt(session, now) {
  if (openOffers(session, now).length > 0) return null;
  const begins = (session.offers || []).filter((offer) => !hasEnded(offer, now)).map(({ from }) => Date.parse(from));
  return begins.length > 0 ? Math.min(...begins) : null;
}

/** Why the offers sell nothing at an instant: "not_yet" or "ended". Null if one is open, or if there are none. */
export function offersKey(session, now) {
  if (!hasOffers(session) || openOffers(session, now).length > 0) return null;
  return opensAt(session, now) === null ? 'ended' : 'not_yet';
}

/** A text that is another one as soon as something else is on sale. */
export const stampOf = (session, now) => openOffers(session, now).map(({ id }) => id).join(' ');

/** How many are left of a counter. Null if the session has no such counter. */
export function leftOf(session, counter) {
  const place = (session.counters || []).findIndex(({ id }) => id === counter);
  return place < 0 ? null : Math.max(0, session.counters[place].max - (session.sale?.counted?.[place] || 0));
}

function sells({ types = [], categories = [], areas = [], allotments = [] }, type, zone) {
  // Seats that are kept are blocked on the map.
  if (allotments.length > 0) return false;
  if (types.length > 0 && !types.includes(type.id)) return false;
  if (categories.length + areas.length === 0) return true;
  return zone.area ? areas.includes(zone.area) : categories.includes(zone.category);
}

/** How many more an offer sells to a cart that has `held` of each offer, after `used` of each. Both are maps by the offer's id. */
function room(session, offer, used, held) {
  const counters = (offer.counters || []).map((counter) => {
    const taking = (session.offers || []).filter((each) => each.counters?.includes(counter));
    return (leftOf(session, counter) ?? Infinity) - taking.reduce((sum, { id }) => sum + (used.get(id) || 0), 0);
  });
  const own = (held.get(offer.id) || 0) + (used.get(offer.id) || 0);
  return Math.max(0, Math.min(offer.per_order === undefined ? Infinity : offer.per_order - own, ...counters));
}

/** The cheapest way to buy one kind: {amount, list, offer, left}. Null if it is not on sale. `left` is too small if it is sold out. */
function cheapest(session, open, type, zone, quantity, used, held) {
  const list = listPrice(session, type, zone);
  if (list === null) return null;
  if (!hasOffers(session)) return { amount: list, list, offer: null, left: Infinity };
  let [best, most] = [null, null];
  for (const offer of open.filter((each) => sells(each, type, zone))) {
    const way = { amount: priceUnder(offer, list), list, offer, left: room(session, offer, used, held) };
    if (way.left < quantity) {
      if (!most || way.left > most.left) most = way;
    } else if (!best || (way.amount < best.amount && !offer.isUntold)) best = way;
  }
  return best || most;
}

const NONE = new Map();

/**
 * The price types that are on sale in a zone at an instant, each with its price: [{type, amount, list, offer, left}]. `type` is null in
 * a session without price types. One that is sold out has `left: 0`. `held` is that of `heldUnder`.
 */
export function choices(session, zone, now, held = NONE) {
  const open = openOffers(session, now);
  return typesOf(session).flatMap((type) => {
    const way = cheapest(session, open, type, zone, 1, NONE, held);
    return way ? [{ type: type.id, ...way }] : [];
  });
}

/** The same to look at: while the offers sell nothing, what there is at its list prices. */
export const shown = (session, zone, now, held) => choices(offersKey(session, now) ? { ...session, offers: [] } : session, zone, now, held);

/**
 * The prices of several wishes [{type, zone, quantity}] that are held together, each as `choices` has it, or null if it is not on
 * sale. A counter that one wish empties makes the next one dearer.
 */
export function quote(session, wishes, now, held = NONE) {
  const open = openOffers(session, now);
  const used = new Map();
  return wishes.map(({ type, zone, quantity = 1 }) => {
    const known = typesOf(session).find(({ id }) => id === type) || typesOf(session)[0];
    const way = cheapest(session, open, known, zone, quantity, used, held);
    if (way?.offer) used.set(way.offer.id, (used.get(way.offer.id) || 0) + quantity);
    return way && { type: known.id, ...way };
  });
}

/** The type that is bought: the chosen one while it is on sale, else the first that is. Undefined if none is. `ways` are `choices`. */
export function chosenOf(ways, chosen) {
  const open = ways.filter(({ left }) => left > 0);
  return open.find(({ type }) => type === chosen)?.type ?? open[0]?.type;
}

// Lines of carts and orders

/** What each seat of a line was bought as. One is told for all if all have the same. */
export function boughtAs({ bought_as: all = [], seats }, number) {
  return all.length === 1 || !seats ? all[0] : all[number];
}

/** How many of these lines are under each offer. */
export function heldUnder(lines) {
  const held = new Map();
  for (const line of lines) {
    for (let number = 0; number < (line.seats?.length ?? 1); number += 1) {
      const offer = boughtAs(line, number)?.offer;
      if (offer) held.set(offer, (held.get(offer) || 0) + (line.seats ? 1 : line.quantity));
    }
  }
  return held;
}

/** What of a line was bought with a code: [{seat, price}], or [{price}] if its places were. */
export function withCodeIn(line) {
  const all = line.seats?.map((seat, number) => ({ seat, price: line.prices[number] })) ?? [{ price: line.price }];
  return all.filter((_, number) => boughtAs(line, number)?.code_group);
}

/**
 * What a seat of a line was bought as, in words: "Adult", "Adult (Early bird)" if its offer has made it cheaper, or "". Guests are not
 * told the names of offers that need a code.
 */
export function boughtText(session, line, number, languages) {
  const { price_type: type, offer, list_price: list, code_group: group } = boughtAs(line, number) || {};
  const price = line.prices?.[number] ?? line.price;
  const name = type ? nameIn(session.price_types, type, languages) : '';
  const under = group ? 'with a code' : offer && price < list ? nameIn(session.offers, offer, languages) : '';
  return name && under ? `${name} (${under})` : name || under;
}

/** The same of a whole line: "2 × Adult, 1 × Under 26". */
export function boughtSummary(session, line, languages) {
  const counts = new Map();
  for (let number = 0; number < (line.seats?.length ?? 1); number += 1) {
    const text = boughtText(session, line, number, languages);
    if (text) counts.set(text, (counts.get(text) || 0) + (line.seats ? 1 : line.quantity));
  }
  return [...counts].map(([text, count]) => `${count} × ${text}`).join(', ');
}

/** The price types of a line, as a hold names them. Undefined if it has none. */
export function typesIn({ bought_as: all = [] }) {
  return all.length > 0 && all.every((each) => each.price_type) ? all.map((each) => each.price_type) : undefined;
}

/** One type for all if all have the same, as a hold may name them. Undefined without types. */
export function typesTold(types) {
  if (types.length === 0 || types.some((type) => !type)) return undefined;
  return types.every((type) => type === types[0]) ? [types[0]] : types;
}
