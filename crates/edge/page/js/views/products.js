// The shop: products with their live stock, and the number of each to put into the cart.

import { h, money, titled } from '../dom.js';
import { explain } from '../explain.js';

/** Fewer than this are shown as "only 3 left". */
const FEW = 10;
const MOST = 20;

export const title = () => 'Shop';

export function render(root, params, app) {
  return renderProducts(root, app, app.page.products);
}

/** Cards of these products. Returns a function that ends them. */
export function renderProducts(root, app, ids) {
  const cards = ids.map((id) => productCard(id, app));
  const empty = h('p', { class: 'notice' }, 'Nothing is on offer here at the moment.');
  root.append(h('div', { class: 'stack stack--wide' },
    h('div', { class: 'stack stack--tight' },
      h('p', { class: 'eyebrow' }, 'To take home'),
      h('h1', {}, 'Shop'),
      h('p', { class: 'muted' }, 'Pay for it together with your seats, or by itself.')),
    cards.length === 0 ? empty : h('ul', { class: 'shop' }, cards.map((card) => card.element))));
  const end = app.cart.on('change', () => cards.forEach((card) => card.showCart()));
  const rights = () => cards.forEach((card) => card.show());
  addEventListener('rightschange', rights);
  return () => {
    end();
    removeEventListener('rightschange', rights);
    cards.forEach((card) => card.stop());
  };
}

function productCard(id, app) {
  const card = new ProductCard(id, app);
  card.begin();
  return card;
}

class ProductCard {
  constructor(id, app) {
    Object.assign(this, { id, app, counts: null, quantity: 1, most: MOST, busy: false });
    this.name = h('h2', { class: 'shop__name', id: `product-${id}` }, titled(id));
    this.facts = h('p', { class: 'small muted' });
    this.price = h('p', { class: 'shop__price number' });
    this.stock = h('p', { class: 'small shop__stock', 'aria-live': 'polite' });
    this.bar = h('span', { class: 'bar__part bar__part--free' });
    this.mine = h('p', { class: 'small shop__mine' });
    this.only = h('p', { class: 'small muted', role: 'status' });
    this.value = h('output', { class: 'stepper__value' }, '1');
    this.less = h('button', { class: 'stepper__button', type: 'button', 'aria-label': 'One less', onclick: () => this.step(-1) }, '−');
    this.more = h('button', { class: 'stepper__button', type: 'button', 'aria-label': 'One more', onclick: () => this.step(1) }, '+');
    this.button = h('button', { class: 'button button--main', type: 'submit' }, 'Add to cart');
    this.error = h('p', { class: 'notice notice--bad small', role: 'alert', hidden: true });
    const submit = (event) => {
      event.preventDefault();
      this.hold();
    };
    this.form = h('form', { class: 'row', onsubmit: submit, 'aria-labelledby': this.name.id },
      h('span', { class: 'stepper', role: 'group', 'aria-label': 'How many' }, this.less, this.value, this.more), this.button);
    this.element = h('li', { class: 'card shop__card', dataset: { product: id } },
      h('div', { class: 'shop__head' }, this.name, this.facts), this.price,
      h('div', { class: 'stack stack--tight' }, h('div', { class: 'bar', 'aria-hidden': 'true' }, this.bar), this.stock),
      this.only, this.form, this.error, this.mine);
    this.show();
  }

  async begin() {
    this.feed = this.app.link.watch(`product/${this.id}`, {
      snapshot: ({ counts }) => this.told(counts),
      delta: ({ counts }) => this.told(counts),
      ended: () => this.gone(),
    });
    try {
      const product = await this.app.catalogue.product(this.id);
      this.name.textContent = product.name || titled(this.id);
      if (product.price) this.price.textContent = money(product.price.amount, product.price.currency);
      this.facts.textContent = factsOf(product);
      this.most = Math.min(MOST, product.limits?.per_order || MOST);
      this.late = product.hold === 'at_checkout';
      this.show();
    } catch (error) {
      this.stock.textContent = explain(error);
    }
    this.showCart();
  }

  stop() {
    this.feed?.stop();
  }

  gone() {
    this.element.remove();
  }

  told(counts) {
    this.counts = counts;
    this.show();
  }

  show() {
    const free = this.counts?.free ?? null;
    const soldOut = free === 0;
    this.element.dataset.soldOut = soldOut ? 'yes' : 'no';
    setText(this.stock, stockText(this.counts, this.late));
    if (this.counts) {
      const { held, sold } = this.counts;
      this.bar.style.width = `${(100 * free) / Math.max(1, free + held + sold)}%`;
    }
    const most = Math.max(1, Math.min(this.most, free ?? this.most));
    this.quantity = Math.min(this.quantity, most);
    this.value.textContent = this.quantity;
    this.less.disabled = this.quantity <= 1;
    this.more.disabled = this.quantity >= most;
    this.button.disabled = free === null;
    // The stock says "Sold out". Nothing is offered that cannot be had.
    const { rights } = this.app;
    this.form.hidden = soldOut || !rights.mayBuy();
    setText(this.only, rights.mayBuy() ? '' : rights.words());
  }

  /** Shows how many of the product are in the cart. */
  showCart() {
    const lines = this.app.cart.lines.filter((line) => line.product === this.id);
    const count = lines.reduce((sum, line) => sum + line.quantity, 0);
    this.mine.replaceChildren(...(count > 0 ? [`${count} in your `, h('a', { href: '#/cart' }, 'cart'), '.'] : []));
  }

  step(by) {
    this.quantity += by;
    this.show();
    // A button that has just gone out of reach keeps the focus among its neighbours.
    if (document.activeElement === document.body) (by > 0 ? this.less : this.more).focus();
  }

  async hold() {
    if (this.busy) return;
    this.busy = true;
    this.button.setAttribute('aria-busy', 'true');
    this.error.hidden = true;
    const { quantity } = this;
    const name = this.name.textContent;
    try {
      await this.app.cart.holdStock(this.id, quantity);
      this.quantity = 1;
      this.app.say(`${quantity === 1 ? 'One' : quantity} × ${name} in your cart.`, 'good');
    } catch (error) {
      if (!this.app.rights.note(error)) {
        this.error.textContent = explain(error);
        this.error.hidden = false;
      }
    }
    this.busy = false;
    this.button.removeAttribute('aria-busy');
    this.show();
  }
}

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function stockText(counts, late) {
  if (!counts) return 'Looking how many are left …';
  const { free, held } = counts;
  if (free === 0) return held > 0 ? `Sold out; ${held} ${held === 1 ? 'is' : 'are'} in carts and may come back.` : 'Sold out.';
  const left = free < FEW ? `Only ${free} left` : `${free} left`;
  return `${left}${held > 0 ? `, ${held} in carts` : ''}.${late ? ' Set aside when you pay.' : ''}`;
}

function factsOf({ properties, limits }) {
  const facts = Object.entries(properties || {}).map(([name, text]) => `${titled(name)}: ${text}`);
  if (limits?.per_order) facts.push(`at most ${limits.per_order} an order`);
  return facts.join(' · ');
}
