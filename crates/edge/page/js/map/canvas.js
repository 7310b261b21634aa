// The picture of a seat map. It decides what is drawn where, and when.
//
// There are four canvases. `whole` is the whole house at a fixed scale and is never visible. While the view moves over many
// seats, a stretched copy of it is shown. `base` is the visible, sharp picture. It is drawn anew when the view rests, and a
// seat that changes is drawn anew alone. `names` has the names of sections over it. `over` has the focus, and short flashes where a
// seat has changed.

import { Brush, coloursOf } from './brush.js';

const WHOLE_SIDE_MAX = 2_048;
/** The most seats in view that are drawn anew in each frame while the view moves. For more, a stretched copy is shown. */
const SHARP_SEATS_MAX = 900;
const RESTS_AFTER_MS = 140;
const FLASHES_MAX = 200;
const FLASH_MS = 550;
const DENSITY_MAX = 2;
/** In a picture narrower than this, the buttons have the foot for themselves. Both in pixels. */
const NARROW = 600;
const BUTTONS = 56;
/** Where seats are narrower than this, names of sections stand within them. In pixels. */
const NAMES_WITHIN = 9;
/** Room around the seats, for the stage and the names of rows. */
const MARGIN = { side: 260, top: 420, bottom: 260 };

export class Picture {
  /** `host` gets the canvases. `plan` has the positions of seats. `shown` and `over` have their states, by index. */
  constructor(host, plan, shown, over) {
    Object.assign(this, { host, plan, shown, over });
    this.base = layer(host, 'base');
    // A plan without sections has no layer for their names, because each layer costs time in every frame.
    this.names = plan.sections.length > 1 ? layer(host, 'names') : null;
    this.top = layer(host, 'over');
    this.whole = document.createElement('canvas');
    this.changed = new Set();
    this.flashes = new Map();
    this.focus = -1;
    this.hover = -1;
    /** Seats with a ring around them, because something is said of them. */
    this.pointed = [];
    /** The names of sections that are shown: {id, left, right, top, bottom}, in pixels. */
    this.named = [];
    this.stale = true;
    this.still = matchMedia('(prefers-reduced-motion: reduce)').matches;
    this.extent = extentOf(plan);
    this.width = 0;
    this.height = 0;
    this.restyle();
    this.watcher = new ResizeObserver(() => this.resize());
    this.watcher.observe(host);
    this.resize();
  }

  stop() {
    this.watcher.disconnect();
    cancelAnimationFrame(this.frame);
    clearTimeout(this.resting);
  }

  /** Redraws everything after a change of colours. */
  restyle() {
    this.colours = coloursOf(this.host);
    this.brush = null;
    this.drawWhole();
    this.redraw();
  }

  resize() {
    const { clientWidth, clientHeight } = this.host;
    if (clientWidth === 0 || (clientWidth === this.width && clientHeight === this.height)) return;
    const fitted = !this.view || Math.abs(this.view.scale - this.fitScale()) < 1e-6;
    this.width = clientWidth;
    this.height = clientHeight;
    this.density = Math.min(DENSITY_MAX, devicePixelRatio || 1);
    for (const { canvas } of [this.base, this.names, this.top].filter(Boolean)) {
      canvas.width = Math.round(clientWidth * this.density);
      canvas.height = Math.round(clientHeight * this.density);
    }
    if (fitted) this.fit();
    else this.moved();
    this.onresize?.();
  }

  // The view: `scale` is pixels of the page per unit, (x, y) the point of the plan at the top left corner.

  /** The height without the buttons. */
  usable() {
    return this.height - (this.width < NARROW ? BUTTONS : 0);
  }

  fitScale() {
    const { left, right, top, bottom } = this.extent;
    return Math.min(this.width / (right - left), this.usable() / (bottom - top));
  }

  fit() {
    const { left, right, top, bottom } = this.extent;
    const scale = this.fitScale();
    this.view = { scale, x: (left + right - this.width / scale) / 2, y: (top + bottom - this.usable() / scale) / 2 };
    this.moved();
  }

  scaleMax() {
    return Math.max(this.fitScale() * 1.5, 0.52);
  }

  /** Zooms by a factor around a point of the host. */
  zoom(factor, px, py) {
    const { view } = this;
    const scale = Math.min(this.scaleMax(), Math.max(this.fitScale(), view.scale * factor));
    view.x += px / view.scale - px / scale;
    view.y += py / view.scale - py / scale;
    view.scale = scale;
    this.keepIn();
    this.moved();
  }

  /** Zooms by a factor, and brings a point of the plan to the middle. */
  zoomTo(factor, x, y) {
    const { view } = this;
    view.scale = Math.min(this.scaleMax(), Math.max(this.fitScale(), view.scale * factor));
    view.x = x - this.width / view.scale / 2;
    view.y = y - this.usable() / view.scale / 2;
    this.keepIn();
    this.moved();
  }

  pan(dx, dy) {
    this.view.x -= dx / this.view.scale;
    this.view.y -= dy / this.view.scale;
    this.keepIn();
    this.moved();
  }

  keepIn() {
    const { view, extent } = this;
    const within = (at, from, to, length) => (to - from <= length
      ? (from + to - length) / 2
      : Math.min(to - length, Math.max(from, at)));
    view.x = within(view.x, extent.left, extent.right, this.width / view.scale);
    view.y = within(view.y, extent.top, extent.bottom, this.usable() / view.scale);
  }

  /** Moves the view so that a seat is well inside. */
  reveal(seat) {
    const [x, y] = this.toScreen(this.plan.x[seat], this.plan.y[seat]);
    const edge = Math.min(70, this.width / 5);
    const dx = x < edge ? edge - x : Math.min(0, this.width - edge - x);
    const dy = y < edge ? edge - y : Math.min(0, this.height - edge - y);
    if (dx !== 0 || dy !== 0) this.pan(dx, dy);
  }

  toScreen(x, y) {
    return [(x - this.view.x) * this.view.scale, (y - this.view.y) * this.view.scale];
  }

  toPlan(px, py) {
    return [px / this.view.scale + this.view.x, py / this.view.scale + this.view.y];
  }

  get zoomed() {
    return this.view && this.view.scale > this.fitScale() * 1.01;
  }

  // When things are drawn

  moved() {
    this.stale = true;
    this.moving = true;
    clearTimeout(this.resting);
    this.resting = setTimeout(() => {
      this.moving = false;
      this.stale = true;
      this.soon();
    }, RESTS_AFTER_MS);
    this.soon();
    this.onmove?.();
  }

  redraw() {
    this.stale = true;
    this.soon();
  }

  /** A seat looks different from now on. */
  change(seat, flash) {
    this.changed.add(seat);
    if (flash && !this.still && (this.flashes.size < FLASHES_MAX || this.flashes.has(seat))) {
      this.flashes.set(seat, { since: performance.now() });
    }
    this.soon();
  }

  setFocus(seat) {
    this.focus = seat;
    this.soon();
  }

  setHover(seat) {
    this.hover = seat;
    this.soon();
  }

  setPointed(seats) {
    this.pointed = seats;
    this.soon();
  }

  soon() {
    if (!this.frame) this.frame = requestAnimationFrame((now) => this.draw(now));
  }

  draw(now) {
    this.frame = 0;
    if (!this.view) return;
    this.touchWhole();
    if (this.stale) this.drawBase();
    else this.touchBase();
    this.changed.clear();
    this.drawTop(now);
  }

  // The whole house

  drawWhole() {
    const { left, right, top, bottom } = this.extent;
    this.wholeScale = Math.min(0.3, WHOLE_SIDE_MAX / Math.max(right - left, bottom - top));
    this.whole.width = Math.ceil((right - left) * this.wholeScale);
    this.whole.height = Math.ceil((bottom - top) * this.wholeScale);
    this.wholeContext = this.whole.getContext('2d');
    this.wholeBrush = new Brush(100 * this.wholeScale, this.colours);
    this.wholeBrush.lettered = false;
    this.drawSurroundings(this.wholeContext, this.wholeScale, left, top, 1);
    for (let seat = 0; seat < this.plan.size; seat += 1) this.drawInWhole(seat);
  }

  drawInWhole(seat) {
    const { plan, extent, wholeScale } = this;
    this.put(this.wholeContext, this.wholeBrush, seat, (plan.x[seat] - extent.left) * wholeScale, (plan.y[seat] - extent.top) * wholeScale);
  }

  touchWhole() {
    const { plan, extent, wholeScale } = this;
    for (const seat of this.changed) {
      this.wholeBrush.clear(this.wholeContext, (plan.x[seat] - extent.left) * wholeScale, (plan.y[seat] - extent.top) * wholeScale);
      this.drawInWhole(seat);
    }
  }

  // What is seen

  drawBase() {
    const { base: { context, canvas }, density, view, plan } = this;
    this.stale = false;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, canvas.width, canvas.height);
    this.drawNames();
    const seats = this.inView();
    if (this.moving && seats.length > SHARP_SEATS_MAX) {
      this.sharp = false;
      const ratio = (view.scale * density) / this.wholeScale;
      context.setTransform(ratio, 0, 0, ratio, (this.extent.left - view.x) * view.scale * density, (this.extent.top - view.y) * view.scale * density);
      context.drawImage(this.whole, 0, 0);
      context.setTransform(1, 0, 0, 1, 0, 0);
      return;
    }
    this.sharp = true;
    const scale = view.scale * density;
    if (!this.brush || this.brush.size !== 100 * scale) this.brush = new Brush(100 * scale, this.colours);
    this.drawSurroundings(context, scale, view.x, view.y, density);
    for (const seat of seats) this.put(context, this.brush, seat, (plan.x[seat] - view.x) * scale, (plan.y[seat] - view.y) * scale);
  }

  touchBase() {
    if (!this.sharp) {
      // The changes are in the whole house, which is copied again.
      if (this.changed.size > 0) this.drawBase();
      return;
    }
    const { base: { context }, view, plan, density } = this;
    const scale = view.scale * density;
    for (const seat of this.changed) {
      const [x, y] = [(plan.x[seat] - view.x) * scale, (plan.y[seat] - view.y) * scale];
      this.brush.clear(context, x, y);
      this.put(context, this.brush, seat, x, y);
    }
  }

  put(context, brush, seat, x, y) {
    const { plan } = this;
    brush.draw(context, x, y, this.shown[seat], this.over[seat], plan.category[seat], plan.accessible[seat], plan.labels[seat]);
  }

  inView() {
    const { plan, view } = this;
    const [left, top, right, bottom] = [view.x - 60, view.y - 60, view.x + this.width / view.scale + 60, view.y + this.height / view.scale + 60];
    const seats = [];
    for (let seat = 0; seat < plan.size; seat += 1) {
      if (plan.x[seat] > left && plan.x[seat] < right && plan.y[seat] > top && plan.y[seat] < bottom) seats.push(seat);
    }
    return seats;
  }

  /** The stage, the names of sections and rows. */
  drawSurroundings(context, scale, left, top, density) {
    const { plan, colours } = this;
    const at = (x, y) => [(x - left) * scale, (y - top) * scale];
    if (plan.size > 0) drawStage(context, stageOf(plan), plan.stage, at, scale, colours, density);
    context.textAlign = 'center';
    context.textBaseline = 'middle';
    const seat = 100 * scale / density;
    context.fillStyle = colours.ink2;
    if (seat < 8) return;
    context.font = `600 ${Math.round(Math.min(13, Math.max(8, seat * 0.42)) * density)}px sans-serif`;
    for (const row of plan.rows) {
      if (row.label.length > 3) continue;
      const [first, last] = [row.first, row.first + row.count - 1];
      context.fillText(row.label, ...at(...beyond(plan, first, first + 1)));
      context.fillText(row.label, ...at(...beyond(plan, last, last - 1)));
    }
  }

  /**
   * The names of sections. Where seats are small a name stands in the middle of its section, because the space behind belongs to the
   * next one. One that would cover another is left out until there is room.
   */
  drawNames() {
    if (!this.names) return;
    const { names: { context, canvas }, plan, colours, density } = this;
    context.clearRect(0, 0, canvas.width, canvas.height);
    this.named = [];
    const seat = 100 * this.view.scale;
    const size = Math.min(17, Math.max(11, seat * 0.8));
    context.font = `600 ${Math.round(size * density)}px ${SERIF}`;
    context.textAlign = 'center';
    context.textBaseline = 'middle';
    context.lineJoin = 'round';
    context.lineWidth = 4 * density;
    context.strokeStyle = colours.bg;
    context.fillStyle = colours.ink;
    for (const { id, name, bottom, middle, center } of plan.sections) {
      const [x, y] = this.toScreen(...(seat < NAMES_WITHIN ? center : [middle, bottom + 115]));
      const half = context.measureText(name).width / density / 2 + 3;
      const box = { id, left: x - half, right: x + half, top: y - size * 0.7, bottom: y + size * 0.7 };
      if (box.right < 0 || box.left > this.width || box.bottom < 0 || box.top > this.height) continue;
      if (this.named.some((other) => box.left < other.right && box.right > other.left && box.top < other.bottom && box.bottom > other.top)) continue;
      this.named.push(box);
      context.strokeText(name, x * density, y * density);
      context.fillText(name, x * density, y * density);
    }
  }

  // What moves

  drawTop(now) {
    const { top: { context, canvas }, density } = this;
    if (this.dirty) context.clearRect(...this.dirty);
    this.dirty = null;
    const boxes = [];
    const scale = this.view.scale * density;
    const ring = (seat, radius, colour, width) => {
      const [x, y] = this.toScreen(this.plan.x[seat], this.plan.y[seat]).map((value) => value * density);
      const r = Math.max(radius * scale, 5 * density);
      if (x < -r || y < -r || x > canvas.width + r || y > canvas.height + r) return;
      context.strokeStyle = colour;
      context.lineWidth = width * density;
      context.beginPath();
      context.arc(x, y, r, 0, Math.PI * 2);
      context.stroke();
      boxes.push([x, y, r + width * density + 1]);
    };
    for (const [seat, flash] of this.flashes) {
      const age = (now - flash.since) / FLASH_MS;
      if (age >= 1) {
        this.flashes.delete(seat);
        continue;
      }
      context.globalAlpha = 1 - Math.max(0, age);
      ring(seat, 46 + 22 * Math.max(0, age), this.colours.gold, 1.5);
    }
    context.globalAlpha = 1;
    for (const seat of this.pointed) ring(seat, 54, this.colours.gold, 4);
    if (this.hover >= 0) ring(this.hover, 54, this.colours.ink, 1.5);
    if (this.focus >= 0) {
      ring(this.focus, 60, this.colours.bg, 5);
      ring(this.focus, 60, this.colours.focus, 3);
    }
    this.dirty = around(boxes);
    if (this.flashes.size > 0) this.soon();
  }
}

const SERIF = '"Iowan Old Style", "Palatino Linotype", Palatino, Georgia, "Liberation Serif", serif';

function layer(host, name) {
  const canvas = document.createElement('canvas');
  canvas.className = `seats__layer seats__layer--${name}`;
  canvas.setAttribute('aria-hidden', 'true');
  canvas.setAttribute('part', name);
  host.append(canvas);
  return { canvas, context: canvas.getContext('2d') };
}

function extentOf(plan) {
  const { left, right, top, bottom } = plan.bounds;
  const stage = stageOf(plan);
  return {
    left: Math.min(left, stage.left) - MARGIN.side,
    right: Math.max(right, stage.right) + MARGIN.side,
    top: Math.min(top - 130, stage.top - 120),
    bottom: Math.max(bottom + MARGIN.bottom, stage.bottom + 100),
  };
}

/** The stage. It is in front of the first row, or at the focal point if seats are around that. */
function stageOf(plan) {
  const { left, right, top, bottom } = plan.bounds;
  const [x, y] = plan.focal || [(left + right) / 2, top];
  const width = Math.min(Math.max(500, (right - left) * 0.42), 2_400);
  const inside = plan.focal && y > top + (bottom - top) * 0.25;
  const height = Math.min(320, Math.max(150, width * 0.16));
  if (inside) return { left: x - width / 3, right: x + width / 3, top: y - height, bottom: y + height, inside };
  let front = top;
  // Rows that curve around the stage leave it room, so it ends where the middle of the first row begins.
  for (let seat = 0; seat < plan.size; seat += 1) {
    if (plan.row[seat] === 0 && Math.abs(plan.x[seat] - x) < 200) front = Math.max(front, plan.y[seat]);
  }
  const edge = Math.max(Math.min(front, top + 600) - 170, top - 130);
  // No wider than there is room between the rows at its sides.
  let half = width / 2;
  for (let seat = 0; seat < plan.size; seat += 1) {
    if (plan.y[seat] < edge + 110) half = Math.min(half, Math.max(220, Math.abs(plan.x[seat] - x) - 150));
  }
  return { left: x - half, right: x + half, top: edge - height, bottom: edge, inside };
}

function drawStage(context, stage, name, at, scale, colours, density) {
  const [left, top] = at(stage.left, stage.top);
  const [right, bottom] = at(stage.right, stage.bottom);
  const middle = (left + right) / 2;
  context.fillStyle = colours.stage;
  context.strokeStyle = colours.gold;
  context.lineWidth = Math.max(1, 8 * scale);
  context.beginPath();
  if (stage.inside) {
    context.roundRect(left, top, right - left, bottom - top, 60 * scale);
  } else {
    const slant = (right - left) * 0.06;
    context.moveTo(left + slant, top);
    context.lineTo(right - slant, top);
    context.lineTo(right, bottom - 40 * scale);
    context.quadraticCurveTo(middle, bottom + 60 * scale, left, bottom - 40 * scale);
    context.closePath();
  }
  context.fill();
  context.stroke();
  context.fillStyle = colours.ink2;
  context.textAlign = 'center';
  context.textBaseline = 'middle';
  context.font = `italic 500 ${Math.round(Math.min(22, Math.max(10, 100 * scale / density)) * density)}px ${SERIF}`;
  context.fillText(name, middle, (top + bottom) / 2);
}

/** A point one seat beyond a seat at the end of its row. */
function beyond(plan, end, inner) {
  const row = plan.row[end];
  if (inner < 0 || inner >= plan.size || plan.row[inner] !== row) return [plan.x[end] - 95, plan.y[end]];
  const [dx, dy] = [plan.x[end] - plan.x[inner], plan.y[end] - plan.y[inner]];
  const length = Math.hypot(dx, dy) || 1;
  return [plan.x[end] + (dx / length) * 95, plan.y[end] + (dy / length) * 95];
}

function around(boxes) {
  if (boxes.length === 0) return null;
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const [x, y, r] of boxes) {
    left = Math.min(left, x - r);
    top = Math.min(top, y - r);
    right = Math.max(right, x + r);
    bottom = Math.max(bottom, y + r);
  }
  return [Math.floor(left) - 1, Math.floor(top) - 1, Math.ceil(right - left) + 3, Math.ceil(bottom - top) + 3];
}
