// The form that asks operators for their token.

import { h } from '../dom.js';
import { setToken, token } from './ask.js';

/** A form. `onToken` is called when a token was given. */
export function tokenForm(onToken) {
  const wrong = token() !== '';
  const input = h('input', {
    class: 'input', id: 'operator-token', type: 'password', autocomplete: 'off', required: true,
    'aria-describedby': 'operator-token-hint',
  });
  const submit = (event) => {
    event.preventDefault();
    if (input.value === '') return;
    setToken(input.value);
    onToken();
  };
  return h('form', { class: 'card stack op-token', onsubmit: submit },
    h('h2', {}, 'For operators'),
    wrong && h('p', { class: 'notice notice--bad', role: 'alert' }, 'That is no key of this cluster, or it lacks the role report.'),
    h('div', { class: 'field' },
      h('label', { class: 'field__label', for: 'operator-token' }, 'Key'),
      input,
      h('p', { class: 'field__hint', id: 'operator-token-hint' }, 'A key with the roles report and desk, or listen.admin_token. Kept until this window is closed.')),
    h('div', {}, h('button', { class: 'button button--main', type: 'submit' }, 'Show the cluster')));
}
