// One product of the shop.

import { titled } from '../dom.js';
import { renderProducts } from './products.js';

export const title = ({ id }) => titled(id);

export function render(root, { id }, app) {
  return renderProducts(root, app, [id]);
}
