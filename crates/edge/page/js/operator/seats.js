// The seats of a layout, by their labels.

/** Rows as [{label, section, seats: [label]}], in layout order. */
export function rowsOf(layout) {
  return (layout?.rows || []).map(({ label, section, runs }) => ({ label, section, seats: runs.flatMap(labelsOf) }));
}

function labelsOf({ count, first, step, names }) {
  return names || Array.from({ length: count }, (_, index) => String(first + index * (step ?? 1)));
}

/** "Row B seat 6", with the section where rows of several are called the same. */
export function seatName(rows, [row, seat]) {
  const found = rows[row];
  if (!found) return `seat [${row}, ${seat}]`;
  return `${rowName(rows, row)} seat ${found.seats[seat] ?? seat}`;
}

/** "Row B", or "Balcony, row 1". */
export function rowName(rows, row) {
  const { label, section } = rows[row];
  const several = new Set(rows.map((each) => each.section || '')).size > 1;
  return several && section ? `${section}, row ${label}` : `Row ${label}`;
}

/** The index of a seat in layout order, as in feeds. */
export function indexOf(rows, [row, seat]) {
  return rows.slice(0, row).reduce((sum, { seats }) => sum + seats.length, 0) + seat;
}
