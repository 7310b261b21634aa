// Whether an operator looks at this window. Only then the page shows what buyers have no use for: the link to the operators' view
// and the names of nodes. It is so at the operators' port, and in a window that has opened the operators' view by its address.

const KEPT = 'boxoffice.operator.seen';
const VIEWS = ['operator', 'history'];

let seen = false;

/** Takes note of a view that is opened. */
export function noteView(view) {
  if (!VIEWS.includes(view)) return;
  seen = true;
  try {
    sessionStorage.setItem(KEPT, '1');
  } catch {
    // Without storage it lasts as long as the page.
  }
}

/** `page` is page.json. */
export function operatorLooks(page) {
  try {
    return page.operators || seen || sessionStorage.getItem(KEPT) === '1';
  } catch {
    return page.operators || seen;
  }
}
