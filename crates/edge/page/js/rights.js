// Whether this visitor may buy here. Strangers may only look where the house says so, and a customer who is known may buy.

const SIGN_IN = 'Here one can look, but not buy. Please sign in to buy.';
const AT_THE_HOUSE = 'Here one can only look. Tickets are sold at the box office.';

export class Rights {
  /** `page` is page.json. Tells changes as the event "rightschange" of the window. */
  constructor(page, customer) {
    Object.assign(this, { page, customer });
    /** The node has refused a purchase of this visitor. */
    this.isRefused = false;
    customer.on?.(() => {
      this.isRefused = false;
      this.changed();
    });
  }

  mayBuy() {
    return !this.isRefused && (this.page.sells !== false || (this.page.customers && this.customer.get() !== null));
  }

  /** Why nothing can be bought, for the buyer. */
  words() {
    return this.page.customers && this.customer.get() === null ? SIGN_IN : AT_THE_HOUSE;
  }

  /** Takes note of a refusal. Returns whether it was one of rights, so that nothing else need be said about it. */
  note({ name2, message }) {
    const isOne = name2 === 'unauthenticated' || (name2 === 'forbidden' && /\bneeds the role\b/.test(message || ''));
    if (isOne && !this.isRefused) {
      this.isRefused = true;
      this.changed();
    }
    return isOne;
  }

  changed() {
    dispatchEvent(new Event('rightschange'));
  }
}
