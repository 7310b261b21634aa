// The cards of the nodes.

import { fill, h } from '../dom.js';
import { isBeyond } from './cluster.js';
import { quantile } from './metrics.js';
import { spark } from './spark.js';
import { latency, lasting, perSecond, whole } from './words.js';

/** The colour of a node wherever it is shown. */
export function colourOf(node) {
  return `var(--cat-${(Number(node) - 1) % 8})`;
}

/** Cards in a list: {element, show(cluster)}. `onDemo(member, 'kill' or 'start')` is called by a demonstration's buttons. */
export function nodeCards(onDemo) {
  const cards = new Map();
  const element = h('ul', { class: 'op-nodes' });
  const show = (cluster) => {
    for (const [node, card] of cards) {
      if (cluster.members.has(node)) continue;
      card.element.remove();
      cards.delete(node);
    }
    for (const member of [...cluster.members.values()].sort((one, other) => one.node - other.node)) {
      if (!cards.has(member.node)) {
        const card = nodeCard(member, onDemo);
        cards.set(member.node, card);
        element.append(card.element);
      }
      cards.get(member.node).show(member, cluster);
    }
  };
  return { element, show };
}

const ROWS = ['Leads', 'Behind', 'Answers', 'Refusals', 'Failures', 'Half within', '99 % within', 'Watchers', 'Connections', 'Durability', 'Up for'];

function nodeCard({ node, url }, onDemo) {
  const badge = h('span', { class: 'badge' });
  const values = new Map(ROWS.map((row) => [row, h('dd', { class: 'number' })]));
  const curve = spark();
  const button = h('button', { class: 'button button--small op-node__demo', type: 'button', hidden: true });
  const foot = h('p', { class: 'small muted op-node__why' });
  let asked = null;
  button.addEventListener('click', () => {
    button.setAttribute('aria-busy', 'true');
    onDemo(asked.member, asked.what);
  });
  const element = h('li', { class: 'card op-node', style: { '--node': colourOf(node) } },
    h('div', { class: 'row row--apart' }, h('h3', { class: 'op-node__name' }, `Node ${node}`), badge),
    h('p', { class: 'small' }, h('a', { href: `${url}/#/operator` }, url.replace(/^https?:\/\//, ''))),
    curve.element,
    h('dl', { class: 'op-facts' }, ROWS.map((row) => h('div', {}, h('dt', {}, row), values.get(row)))),
    foot, button);
  const show = (member, cluster) => {
    element.dataset.up = member.up ? 'yes' : 'no';
    const facts = factsOf(member, cluster);
    for (const row of ROWS) values.get(row).textContent = facts[row] ?? '–';
    const [tone, word, why] = stateOf(member);
    badge.className = `badge badge--${tone}`;
    badge.textContent = word;
    foot.textContent = why;
    foot.hidden = why === '';
    curve.draw(member.series.ok);
    asked = showDemo(button, member, cluster);
  };
  return { element, show };
}

function stateOf(member) {
  if (member.up === null) return ['plain', 'asking …', ''];
  if (!member.up && isBeyond(member.url)) return ['plain', 'not asked', 'this page may not connect to it; if it has just joined, reload the page'];
  if (!member.up) return ['bad', 'no answer', ''];
  const { state } = member.status;
  if (state !== 'ready') return ['warn', 'not ready', state];
  return member.state === 'serving' ? ['good', 'ready', ''] : ['warn', member.state, ''];
}

function factsOf(member, cluster) {
  const led = [...cluster.leaders.values()].filter((leader) => leader === member.node).length;
  if (!member.up) return { Leads: `0 of ${cluster.leaders.size} shards` };
  const { status, rates, now, buckets } = member;
  const { replicas, fsync } = status.durability;
  return {
    Leads: `${led} of ${cluster.leaders.size} shards`,
    Behind: member.lag > 0 ? `${whole(member.lag)} entries` : 'nothing',
    Answers: perSecond(rates?.ok),
    Refusals: perSecond(rates?.no),
    Failures: perSecond(rates?.fail),
    'Half within': latency(quantile(buckets, 0.5)),
    '99 % within': latency(quantile(buckets, 0.99)),
    Watchers: `${whole(now.watchers)} feeds`,
    Connections: whole(now.sockets),
    Durability: `${replicas} ${replicas === 1 ? 'copy' : 'copies'}, fsync ${fsync}`,
    'Up for': lasting(status.uptime_ms),
  };
}

/** Updates the button of a demonstration. Returns what it does now: {member, what}. */
function showDemo(button, member, cluster) {
  const process = cluster.processOf(member);
  button.hidden = !process;
  if (!process) return null;
  const what = process.running ? 'kill' : 'start';
  const words = what === 'kill' ? 'Kill this node' : 'Bring it back';
  if (member.busy) {
    button.setAttribute('aria-busy', 'true');
  } else {
    button.removeAttribute('aria-busy');
    if (button.dataset.what !== what) fill(button, words, h('span', { class: 'unseen' }, ` (node ${member.node})`));
    button.dataset.what = what;
  }
  button.classList.toggle('op-node__demo--kill', what === 'kill');
  return { member, what, process };
}
