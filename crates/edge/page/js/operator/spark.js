// Small curves of the last two minutes.

import { h } from '../dom.js';

/** How many readings a curve shows: one a second. */
export const POINTS = 120;

/** A curve: {element, draw(values, tone)}. Words beside it say the same. */
export function spark({ tone = '--accent-text', floor = 1 } = {}) {
  const canvas = h('canvas', { class: 'op-spark', 'aria-hidden': 'true' });
  return { element: canvas, draw: (values) => draw(canvas, values, tone, floor) };
}

function draw(canvas, values, tone, floor) {
  const { clientWidth: width, clientHeight: height } = canvas;
  if (width === 0) return;
  const scale = devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
  }
  const pen = canvas.getContext('2d');
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  if (values.length < 2) return;
  const most = Math.max(floor, ...values);
  const x = (index) => width - ((values.length - 1 - index) / (POINTS - 1)) * width;
  const y = (value) => height - 1.5 - (value / most) * (height - 4);
  pen.beginPath();
  values.forEach((value, index) => pen.lineTo(x(index), y(value)));
  const colour = inkOf(canvas, tone);
  pen.strokeStyle = colour;
  pen.lineWidth = 1.5;
  pen.lineJoin = 'round';
  pen.stroke();
  pen.lineTo(width, height);
  pen.lineTo(x(0), height);
  pen.globalAlpha = 0.14;
  pen.fillStyle = colour;
  pen.fill();
  pen.globalAlpha = 1;
}

/** A custom property may be light-dark(…), which a canvas does not know, so the element's own colour is resolved. */
function inkOf(canvas, tone) {
  canvas.style.setProperty('color', `var(${tone})`);
  return getComputedStyle(canvas).color;
}
