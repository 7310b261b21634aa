// How seats look: colours of the style sheet, and sprites of seats for one scale.

export const FREE = 0;
export const HELD = 1;
export const SOLD = 2;
export const BLOCKED = 3;
/** Shown over the state: picked on this page, held by this cart, bought by it. */
export const PICKED = 1;
export const MINE = 2;

const CATEGORIES = 8;
const ROUND = Math.PI * 2;

/** The colours of the style sheet as canvases want them. `host` is any element of the page or of the widget. */
export function coloursOf(host) {
  const probe = document.createElement('span');
  probe.hidden = true;
  host.append(probe);
  const colour = (name) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const colours = {
    bg: colour('map-bg'), ink: colour('ink'), ink2: colour('ink-2'), line: colour('line'), lineStrong: colour('line-strong'),
    held: colour('held'), sold: colour('sold'), blocked: colour('line-strong'), accent: colour('mine'), focus: colour('focus'),
    gold: colour('gold'), stage: colour('surface-2'), onMine: colour('map-bg'),
    categories: Array.from({ length: CATEGORIES }, (_, ordinal) => colour(`cat-${ordinal}`)),
  };
  probe.remove();
  return colours;
}

/** Draws seats of one size. Each look is painted once, then copied. */
export class Brush {
  /** `size`: the width of a seat, in pixels of the canvas. */
  constructor(size, colours) {
    this.size = size;
    this.colours = colours;
    /** The side of the square that one seat takes on the canvas, whole pixels. */
    this.side = Math.max(2, Math.ceil(size * 1.1) + 2);
    this.half = this.side / 2;
    this.sprites = new Map();
    /** Smaller seats are plain squares, because a circle would not be seen. */
    this.plain = size < 4;
    this.lettered = size >= 21;
  }

  /** Draws a seat around (x, y). */
  draw(context, x, y, state, over, category, accessible, label) {
    if (this.plain) {
      context.fillStyle = this.colourOf(state, over, category);
      const size = Math.max(1, this.size * 0.8);
      context.fillRect(x - size / 2, y - size / 2, size, size);
      return;
    }
    const sprite = this.sprite(state, over, category, accessible);
    context.drawImage(sprite, Math.round(x - this.half), Math.round(y - this.half));
    if (this.lettered && over !== PICKED && state === FREE && !accessible) this.letter(context, x, y, label, this.colours.bg);
    else if (this.lettered && over === MINE) this.letter(context, x, y, label, this.colours.onMine);
  }

  /** Erases a seat. */
  clear(context, x, y) {
    // No further than half way to its neighbours.
    const reach = Math.max(1, this.size / 2);
    const [left, top] = [Math.floor(x - reach), Math.floor(y - reach)];
    context.clearRect(left, top, Math.ceil(x + reach) - left, Math.ceil(y + reach) - top);
  }

  letter(context, x, y, label, colour) {
    context.font = this.font || (this.font = `600 ${Math.round(this.size * 0.36)}px sans-serif`);
    context.textAlign = 'center';
    context.textBaseline = 'middle';
    context.fillStyle = colour;
    context.fillText(label, x, y + 0.5, this.size * 0.8);
  }

  colourOf(state, over, category) {
    const { colours } = this;
    if (over !== 0) return colours.accent;
    return [colours.categories[category % CATEGORIES], colours.held, colours.sold, colours.blocked][state];
  }

  sprite(state, over, category, accessible) {
    const look = over * 4096 + state * 1024 + (state === FREE && over === 0 ? (category % CATEGORIES) * 2 : 0) + (accessible ? 1 : 0);
    let sprite = this.sprites.get(look);
    if (!sprite) {
      sprite = document.createElement('canvas');
      sprite.width = this.side;
      sprite.height = this.side;
      this.paint(sprite.getContext('2d'), state, over, category, accessible);
      this.sprites.set(look, sprite);
    }
    return sprite;
  }

  paint(context, state, over, category, accessible) {
    const { size, half, colours } = this;
    const colour = this.colourOf(state, over, category);
    const disc = (radius) => {
      context.beginPath();
      context.arc(half, half, radius * size, 0, ROUND);
    };
    context.lineWidth = Math.max(1, size * 0.09);
    context.strokeStyle = colour;
    context.fillStyle = colour;
    if (over === PICKED) {
      disc(0.46);
      context.fill();
      this.tick(context);
    } else if (over === MINE) {
      disc(0.46);
      context.fill();
      context.strokeStyle = colours.gold;
      disc(0.41);
      context.stroke();
    } else if (state === FREE) {
      disc(0.42);
      context.fill();
    } else if (state === HELD) {
      // A ring, so that held seats differ from free ones not by colour alone.
      disc(0.36);
      context.stroke();
      disc(0.14);
      context.fill();
    } else if (state === SOLD) {
      disc(0.36);
      context.fill();
    } else {
      this.cross(context);
    }
    if (accessible) this.wheel(context, state === FREE || over !== 0 ? colours.bg : colours.ink2);
  }

  tick(context) {
    const { size, half } = this;
    context.strokeStyle = this.colours.onMine;
    context.lineWidth = Math.max(1.2, size * 0.11);
    context.lineCap = 'round';
    context.beginPath();
    context.moveTo(half - size * 0.19, half + size * 0.02);
    context.lineTo(half - size * 0.05, half + size * 0.16);
    context.lineTo(half + size * 0.2, half - size * 0.15);
    context.stroke();
  }

  cross(context) {
    const { half } = this;
    const arm = this.size * 0.17;
    context.beginPath();
    context.moveTo(half - arm, half - arm);
    context.lineTo(half + arm, half + arm);
    context.moveTo(half + arm, half - arm);
    context.lineTo(half - arm, half + arm);
    context.stroke();
  }

  /** A wheelchair, as much of it as a seat has room for. */
  wheel(context, colour) {
    const { size, half } = this;
    if (size < 7) return;
    context.strokeStyle = colour;
    context.fillStyle = colour;
    context.lineWidth = Math.max(1, size * 0.07);
    context.beginPath();
    context.arc(half - size * 0.02, half + size * 0.08, size * 0.16, -1.9, 2.6);
    context.stroke();
    context.beginPath();
    context.arc(half - size * 0.06, half - size * 0.24, size * 0.06, 0, ROUND);
    context.fill();
    context.beginPath();
    context.moveTo(half - size * 0.06, half - size * 0.14);
    context.lineTo(half - size * 0.05, half + size * 0.06);
    context.lineTo(half + size * 0.12, half + size * 0.07);
    context.lineTo(half + size * 0.2, half + size * 0.24);
    context.stroke();
  }
}
