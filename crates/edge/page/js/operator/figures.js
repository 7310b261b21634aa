// The figures of the whole cluster, with their curves.

import { h } from '../dom.js';
import { quantile } from './metrics.js';
import { POINTS, spark } from './spark.js';
import { latency, perSecond, whole } from './words.js';

const RATES = [
  { key: 'ok', label: 'Answers', tone: '--good' },
  { key: 'no', label: 'Refusals', tone: '--gold-text' },
  { key: 'fail', label: 'Failures', tone: '--bad' },
];

/** {element, show(cluster)} */
export function figures() {
  const latencies = [];
  const shown = [
    ...RATES.map(({ key, label, tone }) => figure(label, tone, (cluster) => {
      const series = cluster.totals.series[key];
      return { text: perSecond(series.at(-1)), series };
    })),
    figure('99 % answered within', '--accent-text', ({ totals }) => {
      const [half, most] = [quantile(totals.buckets, 0.5), quantile(totals.buckets, 0.99)];
      latencies.push((most || 0) * 1000);
      if (latencies.length > POINTS) latencies.shift();
      return { text: latency(most), more: half === null ? 'no requests lately' : `half within ${latency(half)}`, series: latencies };
    }),
    figure('Feeds watched', '--cat-2', ({ totals }) => {
      const series = totals.series.watchers;
      return { text: whole(series.at(-1)), more: `on ${whole(totals.sockets)} connections`, series };
    }),
    figure('Changes sent to watchers', '--cat-1', ({ totals }) => ({ text: perSecond(totals.series.frames.at(-1)), series: totals.series.frames })),
  ];
  const element = h('dl', { class: 'op-figures' }, shown.map((each) => each.element));
  return { element, show: (cluster) => shown.forEach((each) => each.show(cluster)) };
}

function figure(label, tone, read) {
  const value = h('span', { class: 'op-figure__value number' }, '–');
  const note = h('span', { class: 'small muted' });
  const curve = spark({ tone });
  const element = h('div', { class: 'op-figure' }, h('dt', { class: 'small muted' }, label), h('dd', {}, value, note, curve.element));
  const show = (cluster) => {
    const { text, more = '', series } = read(cluster);
    value.textContent = text;
    note.textContent = more;
    curve.draw(series);
  };
  return { element, show };
}
