// The events from one look at the cluster to the next, in words.

/** [{tone, text}], the most important first. `before` and `now`: pictures of the cluster. */
export function happenings(before, now) {
  return [...ofMembers(before, now), ...ofLeaders(before, now), ...ofMoves(before, now)];
}

function ofMembers(before, now) {
  const told = [];
  const known = new Map(before.members.map((member) => [member.node, member]));
  for (const member of now.members) {
    const was = known.get(member.node);
    known.delete(member.node);
    const name = `Node ${member.node}`;
    if (!was) told.push({ tone: 'good', text: `${name} has joined the cluster.` });
    else if (was.up && !member.up) told.push({ tone: 'bad', text: `${name} does not answer any more.` });
    else if (was.up === false && member.up) told.push({ tone: 'good', text: `${name} answers again.` });
    if (was?.returning && member.up && !member.returning) told.push({ tone: 'good', text: caughtUp(name, was.returning.most) });
    if (was && was.state !== member.state) told.push({ tone: 'plain', text: `${name} is ${member.state} now.` });
  }
  for (const node of known.keys()) told.push({ tone: 'plain', text: `Node ${node} has left the cluster.` });
  return told;
}

function caughtUp(name, most) {
  return most > 0 ? `${name} has everything again: it was ${most} entries behind.` : `${name} has everything that the others have.`;
}

function ofLeaders(before, now) {
  const moves = new Map();
  for (const [shard, leader] of now.leaders) {
    const was = before.leaders.get(shard);
    if (was === undefined || was === leader) continue;
    const key = leader === null ? 'none' : String(leader);
    moves.set(key, [...(moves.get(key) || []), shard]);
  }
  const told = [];
  for (const [key, shards] of moves) {
    const many = `${shards.length === 1 ? 'Shard' : 'Shards'} ${listed(shards)}`;
    const [has, is] = shards.length === 1 ? ['has', 'is'] : ['have', 'are'];
    if (key === 'none') told.push({ tone: 'warn', text: `${many} ${has} no leader for the moment.` });
    else told.push({ tone: 'plain', text: `${many} ${is} led by node ${key} now.` });
  }
  const without = (leaders) => [...leaders.values()].filter((leader) => leader === null).length;
  if (without(before.leaders) > 0 && without(now.leaders) === 0) told.push({ tone: 'good', text: 'Every shard has a leader.' });
  return told;
}

function ofMoves(before, now) {
  const begun = now.moving.filter((shard) => !before.moving.includes(shard));
  const ended = before.moving.filter((shard) => !now.moving.includes(shard));
  const told = [];
  if (begun.length > 0) told.push({ tone: 'plain', text: `Replicas of ${shardsOf(begun)} begin to move.` });
  if (ended.length > 0) told.push({ tone: 'good', text: `Replicas of ${shardsOf(ended)} are where they should be.` });
  return told;
}

function shardsOf(shards) {
  return `${shards.length === 1 ? 'shard' : 'shards'} ${listed(shards)}`;
}

/** Numbers as people write them: "1, 3–6 and 9". */
export function listed(numbers) {
  const sorted = [...numbers].sort((one, other) => one - other);
  const spans = [];
  for (const number of sorted) {
    const last = spans.at(-1);
    if (last && last[1] === number - 1) last[1] = number;
    else spans.push([number, number]);
  }
  const words = spans.flatMap(([from, to]) => (to - from < 2 ? [...new Set([from, to])].map(String) : [`${from}–${to}`]));
  return words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} and ${words.at(-1)}`;
}
