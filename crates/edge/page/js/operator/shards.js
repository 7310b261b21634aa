// The shards: the leader of each, its replicas, and its moves.

import { fill, h } from '../dom.js';
import { nodeOf } from './cluster.js';
import { listed } from './happenings.js';
import { colourOf } from './nodes.js';

/** Tiles: {element, show(cluster)}. */
export function shardTiles() {
  const tiles = new Map();
  const list = h('ol', { class: 'op-shards' });
  const legend = h('ul', { class: 'op-legend small' });
  const moves = h('p', { class: 'small muted', role: 'status' });
  const show = (cluster) => {
    showLegend(legend, cluster);
    for (const place of cluster.places) {
      if (!tiles.has(place.shard)) {
        const tile = shardTile(place.shard);
        tiles.set(place.shard, tile);
        list.append(tile.element);
      }
      tiles.get(place.shard).show(place, cluster);
    }
    const text = movesOf(cluster);
    if (moves.textContent !== text) moves.textContent = text;
  };
  return { element: h('div', { class: 'stack stack--tight' }, legend, list, moves), show };
}

function showLegend(legend, cluster) {
  const nodes = [...cluster.members.keys()].sort((one, other) => one - other);
  const key = nodes.join();
  if (legend.dataset.nodes === key) return;
  legend.dataset.nodes = key;
  fill(legend,
    nodes.map((node) => h('li', { style: { '--node': colourOf(node) } }, h('span', { class: 'op-legend__dot', 'aria-hidden': 'true' }), `led by node ${node}`)),
    h('li', { class: 'muted' }, h('span', { class: 'op-shard__pips', 'aria-hidden': 'true' }, h('i', { class: 'op-pip' })), 'a copy on that node'));
}

function shardTile(shard) {
  const leader = h('span', { class: 'op-shard__leader', 'aria-hidden': 'true' });
  const pips = h('span', { class: 'op-shard__pips', 'aria-hidden': 'true' });
  const words = h('span', { class: 'unseen' });
  const element = h('li', { class: 'op-shard' },
    h('span', { class: 'op-shard__number', 'aria-hidden': 'true' }, String(shard)), leader, pips, words);
  let shown = '';
  const show = (place, cluster) => {
    const node = cluster.leaders.get(shard) ?? null;
    const copies = [...new Set([...place.voters, ...place.learners, ...(place.from?.voters || [])].map(nodeOf))].sort((a, b) => a - b);
    const up = copies.map((copy) => cluster.members.get(copy)?.up !== false);
    const text = wordsOf(shard, place, node, copies);
    const key = `${text} ${up}`;
    if (key === shown) return;
    shown = key;
    words.textContent = text;
    element.title = text;
    leader.textContent = node === null ? '?' : String(node);
    element.dataset.leader = node === null ? 'none' : 'known';
    element.dataset.moving = place.from ? 'yes' : 'no';
    if (node !== null) element.style.setProperty('--node', colourOf(node));
    const future = new Set([...place.voters, ...place.learners].map(nodeOf));
    fill(pips, copies.map((copy, index) => h('i', {
      class: `op-pip ${up[index] ? '' : 'op-pip--down'} ${future.has(copy) ? '' : 'op-pip--leaves'}`,
      style: { '--node': colourOf(copy) },
    })));
  };
  return { element, show };
}

function wordsOf(shard, place, leader, copies) {
  const what = shard === 0 ? 'Shard 0 (the directory)' : `Shard ${shard}`;
  const led = leader === null ? 'no leader' : `led by node ${leader}`;
  const on = `copies on ${copies.length === 1 ? 'node' : 'nodes'} ${listed(copies)}`;
  return `${what}: ${led}, ${on}${place.from ? `; moves to ${listed(place.voters.map(nodeOf))}` : ''}.`;
}

function movesOf(cluster) {
  const moving = cluster.places.filter((place) => place.from);
  if (moving.length > 0) return `${moving.length} of ${cluster.places.length} shards move: ${listed(moving.map((place) => place.shard))}.`;
  const elsewhere = cluster.places.filter((place) => {
    const leader = cluster.leaders.get(place.shard);
    return leader !== undefined && leader !== null && leader !== nodeOf(place.leader);
  });
  if (elsewhere.length > 0) {
    return `Nothing moves. ${elsewhere.length} of ${cluster.places.length} shards are led by another node than the one chosen for it.`;
  }
  return 'Nothing moves: every shard is where it should be.';
}
