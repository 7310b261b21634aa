export const title = () => 'Boxoffice';
export function render(root) {
  root.append('…');
}
