// Names for people of what has an id besides.

/**
 * The name for these languages, of names by locale. If there is none for them, the first name, which stands on the signs of the
 * house. `otherwise` if there are no names at all.
 */
export function nameFor(names, otherwise, languages = globalThis.navigator?.languages || []) {
  const all = Object.entries(names || {});
  if (all.length === 0) return otherwise;
  const known = new Map(all.map(([locale, name]) => [locale.toLowerCase(), name]));
  for (const wanted of languages) {
    // "de-AT" is served by "de-at", then "de", then any other German.
    const parts = wanted.toLowerCase().split('-');
    for (let length = parts.length; length > 0; length -= 1) {
      const name = known.get(parts.slice(0, length).join('-'));
      if (name) return name;
    }
    const near = [...known].find(([locale]) => locale.startsWith(`${parts[0]}-`));
    if (near) return near[1];
  }
  return all[0][1];
}
