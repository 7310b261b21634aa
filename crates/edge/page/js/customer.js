// The customer of a box office that knows customers by token. The page that embeds or opened this one signs the customer in.

const KEPT = 'boxoffice.signed-in';

export class SignedIn {
  /** `hosts`: origins of pages that may hand over a customer, besides this page's own. */
  constructor(link, hosts) {
    this.link = link;
    this.known = kept();
    this.listeners = new Set();
    if (this.known) link.identity = shown(this.known);
    link.on('stranger', () => this.become(null));
    addEventListener('message', ({ origin, data }) => {
      if (data?.boxoffice === 'customer' && (origin === location.origin || hosts.includes(origin))) this.signIn(data);
    });
    for (const host of hosts) {
      if (window.parent !== window) window.parent.postMessage({ boxoffice: 'ready' }, host);
      window.opener?.postMessage({ boxoffice: 'ready' }, host);
    }
  }

  /** {id, name} of the customer, or null. */
  get() {
    return this.known && { id: this.known.customer, name: this.known.customer };
  }

  /** Typed names have no meaning here. */
  set() {
    return this.get();
  }

  /** Calls `listener` when another customer is signed in. Returns a function that ends that. */
  on(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Takes a customer: {customer, token}, or {token} if the token names the customer. {} signs out. */
  signIn({ customer, token }) {
    if (typeof token !== 'string' || token === '') {
      this.link.identify(null);
      this.become(null);
      return;
    }
    const known = { customer: customer || subjectOf(token), token, alone: !customer };
    this.become(known);
    this.link.identify(shown(known));
  }

  become(known) {
    this.known = known;
    try {
      if (known) sessionStorage.setItem(KEPT, JSON.stringify(known));
      else sessionStorage.removeItem(KEPT);
    } catch {
      // Without storage it lasts as long as the page.
    }
    for (const listener of [...this.listeners]) listener(this.get());
  }
}

function shown({ customer, token, alone }) {
  return alone ? { token } : { customer, customer_token: token };
}

function kept() {
  try {
    return JSON.parse(sessionStorage.getItem(KEPT));
  } catch {
    return null;
  }
}

/** The customer of a short-lived token (a JWT). */
function subjectOf(token) {
  try {
    return JSON.parse(atob(token.split('.')[1].replace(/-/g, '+').replace(/_/g, '/'))).sub;
  } catch {
    return '';
  }
}
