// The operators' view: nodes, shards and their leaders, rates, latencies, watchers, and events.

import { h, fill, titled } from '../dom.js';
import { Cluster } from '../operator/cluster.js';
import { demoControl } from '../operator/demo.js';
import { figures } from '../operator/figures.js';
import { nodeCards } from '../operator/nodes.js';
import { shardTiles } from '../operator/shards.js';
import { tokenForm } from '../operator/token.js';

const HAPPENINGS_MAX = 60;
/** How long a node that was started is not asked. */
const STARTS_WITHIN_MS = 700;

export const title = () => 'Operator';

export function render(root, params, app) {
  const control = demoControl(app.page.demo);
  const cluster = new Cluster(app, control);
  const log = happeningsLog();
  const parts = { figures: figures(), shards: shardTiles(), nodes: nodeCards((member, what) => press(member, what, { cluster, control, log, app })) };
  const state = h('p', { class: 'muted', role: 'status' }, 'Asking the nodes …');
  const gate = h('div', { hidden: true });
  const body = h('div', { class: 'stack stack--wide', hidden: true },
    section('Now', 'op-now', parts.figures.element),
    section('Nodes', 'op-nodes-title', control && h('p', { class: 'notice small' }, 'This is a demonstration: kill a node as a power cut would, and see what the others do. Seats stay sold, carts stay held.'), parts.nodes.element),
    h('div', { class: 'op-columns' },
      section('Shards', 'op-shards-title', parts.shards.element),
      section('What happens', 'op-log-title', log.element)),
    section('History of a seat', 'op-history-title', seatHistories(app)));
  root.append(h('div', { class: 'stack stack--wide op' },
    h('div', { class: 'stack stack--tight' }, h('p', { class: 'eyebrow' }, 'Behind the scenes'), h('h1', {}, 'Operator'), state), gate, body));
  log.add([{ tone: 'plain', text: 'Watching the cluster.' }]);
  const end = cluster.on((news) => {
    showGate(gate, body, cluster);
    const text = stateOf(cluster);
    // A text that is set again is read out again.
    if (state.textContent !== text) state.textContent = text;
    if (body.hidden) return;
    for (const part of Object.values(parts)) part.show(cluster);
    log.add(news);
  });
  cluster.start();
  return () => {
    end();
    cluster.stop();
  };
}

function section(name, id, ...children) {
  return h('section', { class: 'stack', 'aria-labelledby': id }, h('h2', { class: 'op-title', id }, name), children);
}

/** Shows the figures only to operators who have shown their token, if the nodes require one. */
function showGate(gate, body, cluster) {
  body.hidden = cluster.version === 0 || cluster.locked;
  if (!cluster.locked) {
    gate.replaceChildren();
    gate.hidden = true;
    gate.dataset.tried = '';
  } else if (gate.dataset.tried !== 'asking') {
    gate.dataset.tried = 'asking';
    gate.hidden = false;
    fill(gate, tokenForm(() => {
      gate.dataset.tried = '';
      cluster.look();
    }));
  }
}

function stateOf(cluster) {
  if (cluster.locked) return 'The nodes ask for a token.';
  if (cluster.version === 0) return 'No node answers yet.';
  const members = [...cluster.members.values()];
  const up = members.filter((member) => member.up).length;
  const led = [...cluster.leaders.values()].filter((leader) => leader !== null).length;
  const nodes = `${up} of ${members.length} ${members.length === 1 ? 'node' : 'nodes'} ${up === 1 ? 'answers' : 'answer'}`;
  const copies = `each shard is to have ${cluster.replicas} ${cluster.replicas === 1 ? 'copy' : 'copies'}`;
  return `${nodes}, ${led} of ${cluster.places.length} shards have a leader; ${copies}.`;
}

/** The log of events, the newest first. */
function happeningsLog() {
  const list = h('ol', { class: 'op-log__list' });
  const element = h('div', { class: 'op-log', role: 'log', 'aria-labelledby': 'op-log-title', tabindex: '0' }, list);
  const clock = new Intl.DateTimeFormat('en', { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' });
  const add = (news) => {
    for (const { tone, text } of news) {
      list.prepend(h('li', { class: `op-log__line op-log__line--${tone}` },
        h('time', { class: 'number small muted' }, clock.format(new Date())), h('span', {}, text)));
    }
    while (list.childElementCount > HAPPENINGS_MAX) list.lastElementChild.remove();
  };
  return { element, add };
}

/** Kills or starts the process of a member. */
async function press(member, what, { cluster, control, log, app }) {
  const process = cluster.processOf(member);
  if (!process || member.busy) return;
  member.busy = true;
  const told = (tone, text) => log.add([{ tone, text }]);
  told('warn', what === 'kill' ? `You kill node ${member.node} (process ${process.pid}).` : `You start node ${member.node} again.`);
  app.say(what === 'kill' ? `Node ${member.node} is killed.` : `Node ${member.node} starts again.`);
  try {
    await cluster.between(async () => {
      await (what === 'kill' ? control.kill(process.node) : control.start(process.node));
      if (what === 'start') await new Promise((resolve) => { setTimeout(resolve, STARTS_WITHIN_MS); });
    });
  } catch (error) {
    told('bad', `That did not work: ${error.message}.`);
    app.say(`That did not work: ${error.message}.`, 'bad');
  }
  member.busy = false;
}

/** Sessions whose seats have a history. */
function seatHistories(app) {
  const select = h('select', { class: 'input', id: 'op-session' }, h('option', { value: '' }, 'Sessions are asked for …'));
  const show = h('button', { class: 'button', type: 'submit', disabled: true }, 'Show its history');
  const submit = (event) => {
    event.preventDefault();
    if (select.value !== '') app.go(`#/operator/session/${encodeURIComponent(select.value)}`);
  };
  listSessions(app, select).then((any) => { show.disabled = !any; }, () => fill(select, h('option', { value: '' }, 'No sessions can be had now')));
  return h('form', { class: 'op-pick', onsubmit: submit },
    h('div', { class: 'field' }, h('label', { class: 'field__label', for: 'op-session' }, 'Session'), select), show);
}

async function listSessions(app, select) {
  const venues = await app.catalogue.venues();
  const from = new Date(Date.now() - 24 * 3600_000).toISOString();
  const lists = await Promise.all(venues.map(async (venue) => [venue, await app.catalogue.sessionsOf(venue.id, from)]));
  const groups = lists.filter(([, sessions]) => sessions.length > 0).map(([venue, sessions]) => {
    const options = sessions.map((session) => h('option', { value: session.id }, `${titled(session.title)} — ${session.starts_at.slice(0, 10)} (${session.id})`));
    return h('optgroup', { label: venue.name }, options);
  });
  fill(select, groups.length > 0 ? groups : h('option', { value: '' }, 'There are none'));
  return groups.length > 0;
}
