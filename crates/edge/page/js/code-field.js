// The field for a code that a buyer has. The page and the widget have the same one.
//
// Everybody who reads a code can use it, so it is kept in memory only, and not in addresses, storages or messages.

import { h } from './dom.js';

/** What the protocol takes as a code. */
const CODE = /^[\w.:-]{1,64}$/;
/** The refusals of a code that is not sent, as a node would answer. */
const NOT_VALID = { code: 218, name: 'code_not_valid' };
const LIMITED = { code: 109, name: 'rate_limited' };
/** How long the next code waits if the node does not say it. */
const WAIT_MS = 1_000;

/** The code in a text. Codes have no spaces, and what is copied from a letter often has some. Null if there is nothing else. */
export const codeIn = (text) => String(text ?? '').replace(/\s/g, '') || null;

/** Whether a hold was refused because of its code, of which a list of lines may have other refusals before. */
const isRefused = ({ name2, details }) => [{ name: name2 }, ...(details?.lines || [])].some(({ name }) => name === NOT_VALID.name);

export class CodeField {
  /** `code` is the code to begin with. Calls `onchange(code)` when the buyer enters another one, with null when it is removed. */
  constructor(words, { code = null, onchange }) {
    Object.assign(this, { words, onchange });
    /** When a node looks at the next code, by this device's clock. */
    this.waitsUntil = 0;
    this.build();
    this.set(code);
  }

  stop() {
    clearTimeout(this.timer);
  }

  build() {
    const { words } = this;
    this.opener = h('button', { class: 'button button--small', id: 'code-open', type: 'button', 'aria-controls': 'code-form', onclick: () => this.open(!this.isOpen) }, words.have);
    // A browser would keep a code for other forms, or send it to a spelling service.
    this.input = h('input', { class: 'input', id: 'code', autocomplete: 'off', autocapitalize: 'off', spellcheck: 'false', 'aria-describedby': 'code-alert' });
    this.alert = h('p', { class: 'code__alert', id: 'code-alert', role: 'alert' });
    const take = (event) => {
      event.preventDefault();
      if (this.take()) this.away.focus();
    };
    this.form = h('form', { class: 'code__form', id: 'code-form', onsubmit: take },
      h('label', { class: 'field__label', for: 'code' }, words.label),
      h('div', { class: 'code__entry' }, this.input, h('button', { class: 'button', id: 'code-use', type: 'submit' }, words.use)),
      this.alert);
    this.said = h('p', { class: 'code__said', id: 'code-said', role: 'status' });
    this.away = h('button', { class: 'button button--small', id: 'code-away', type: 'button', onclick: () => this.remove() }, words.remove);
    this.element = h('div', { class: 'code', part: 'code' }, this.opener, this.form, this.said, this.away);
  }

  show() {
    const { code, isOpen, words } = this;
    this.opener.hidden = code !== null;
    this.opener.setAttribute('aria-expanded', String(isOpen));
    this.form.hidden = !isOpen;
    this.away.hidden = code === null;
    const said = code === null || isOpen ? '' : this.told ?? words.used(code);
    if (this.said.textContent !== said) this.said.textContent = said;
  }

  open(is) {
    this.isOpen = is;
    this.show();
    if (is) this.input.focus();
  }

  /** Takes another code, or null for none. */
  set(code) {
    this.code = code;
    this.told = null;
    this.isOpen = false;
    this.input.value = '';
    this.complain('');
  }

  /** Takes what the buyer has entered. Returns whether it can be a code. */
  take() {
    const code = codeIn(this.input.value);
    if (code === null || !CODE.test(code)) {
      this.refuse(this.words.form);
      return false;
    }
    this.set(code);
    this.onchange(code);
    return true;
  }

  remove() {
    this.set(null);
    this.opener.focus();
    this.onchange(null);
  }

  /**
   * Why nothing can be held with the code now, as the details of a refusal, which the buyer is told as well. Null if nothing is in
   * the way. What stands in the open field is taken first, and an empty one is no code.
   */
  hindrance() {
    const entered = this.isOpen ? codeIn(this.input.value) : null;
    if (entered !== null && !this.take()) return { ...NOT_VALID, message: this.words.form };
    if (this.isOpen && this.code !== null) {
      this.set(null);
      this.onchange(null);
    }
    if (this.code === null) return null;
    if (!CODE.test(this.code)) return { ...NOT_VALID, message: this.refuse(this.words.form) };
    const wait = this.waitsUntil - Date.now();
    return wait > 0 ? { ...LIMITED, message: this.refuse(this.waitText(wait)), retry_after_ms: wait } : null;
  }

  /** Takes note of the refusal of a hold with the code. Returns whether the code was the reason, which the buyer is told then. */
  note(error) {
    if (this.code === null) return false;
    if (isRefused(error)) {
      this.refuse(this.words.wrong);
      return true;
    }
    if (error.name2 !== LIMITED.name) return false;
    const wait = error.details?.retry_after_ms || WAIT_MS;
    this.waitsUntil = Date.now() + wait;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.isOpen && this.complain(this.words.again, false), wait);
    this.refuse(this.waitText(wait));
    return true;
  }

  /** Says what was bought with the code. */
  tell(text) {
    this.told = text;
    this.isOpen = false;
    this.complain('');
  }

  waitText(ms) {
    return this.words.wait(Math.ceil(ms / 1_000));
  }

  /** Says at the field what is wrong, and goes there. Returns it. */
  refuse(text) {
    if (this.code !== null && this.input.value === '') this.input.value = this.code;
    this.isOpen = true;
    this.complain(text);
    this.input.focus();
    this.input.select();
    return text;
  }

  complain(text, isWrong = text !== '') {
    this.alert.textContent = text;
    this.input.setAttribute('aria-invalid', String(isWrong));
    this.show();
  }
}
