// The sessions that the tests buy, in the format of `boxoffice import`. Each test has its own session.

const NAMES = ['two', 'race', 'reload', 'phone', 'keys', 'best', 'paid', 'kill', 'drain', 'history', 'sleep', 'widget', 'axe', 'expiry', 'old', 'late'];
const MORE = { expiry: { hold_ttl_ms: 4_000 }, axe: { offers: [{ id: 'everybody' }] } };

// A hall has one session at a time, so each session has its own evening.
const session = (name, hall, evening) => ({
  id: `page-${name}`, hall, title: 'trial', starts_at: `+${3 + evening}d 20:00`, ends_at: '+2h', prices: { '*': 2000 }, ...MORE[name],
});
const sessions = [session('arena', 'arena', 0), ...NAMES.map((name, evening) => session(name, 'studio', evening))];

const halls = [
  { id: 'studio', name: 'The studio', layout: { rows: 10, seats: 12, category: 'standard' } },
  { id: 'arena', name: 'The arena', layout: { rows: 80, seats: 100, category: 'standard' } },
];

console.log(JSON.stringify({
  currency: 'EUR',
  titles: [{ id: 'trial', name: 'The trial' }],
  venues: [{ id: 'trials', name: 'House of trials', city: 'Copenhagen', zone: 'Europe/Copenhagen', halls, sessions }],
}));
