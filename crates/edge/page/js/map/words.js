// The texts of a seat map, by language.

const ENGLISH = {
  map: 'Seat map', help: 'Arrow keys move between seats, Enter or Space picks one, plus and minus zoom, 0 shows the whole house.',
  states: ['free', 'held by somebody', 'sold', 'not for sale'], picked: 'picked', mine: 'yours', accessible: 'wheelchair place',
  zoomIn: 'Closer', zoomOut: 'Further away', fit: 'The whole house',
  taken: (seat, state) => `${seat} is ${state}.`, most: (count) => `At most ${count} seats at once.`,
  lost: (seats) => `Just taken by somebody else: ${seats}.`,
};

const GERMAN = {
  map: 'Saalplan', help: 'Pfeiltasten wechseln den Platz, Eingabe oder Leertaste wählt ihn, Plus und Minus vergrößern, 0 zeigt den ganzen Saal.',
  states: ['frei', 'reserviert', 'verkauft', 'nicht im Verkauf'], picked: 'gewählt', mine: 'Ihrer', accessible: 'Rollstuhlplatz',
  zoomIn: 'Näher', zoomOut: 'Weiter weg', fit: 'Ganzer Saal',
  taken: (seat, state) => `${seat} ist ${state}.`, most: (count) => `Höchstens ${count} Plätze auf einmal.`,
  lost: (seats) => `Gerade von jemand anderem genommen: ${seats}.`,
};

const FRENCH = {
  map: 'Plan de salle', help: 'Les flèches changent de place, Entrée ou Espace la choisit, plus et moins agrandissent, 0 montre toute la salle.',
  states: ['libre', 'réservée', 'vendue', 'hors vente'], picked: 'choisie', mine: 'à vous', accessible: 'place pour fauteuil roulant',
  zoomIn: 'Plus près', zoomOut: 'Plus loin', fit: 'Toute la salle',
  taken: (seat, state) => `${seat} : ${state}.`, most: (count) => `Au plus ${count} places à la fois.`,
  lost: (seats) => `Prises à l’instant par quelqu’un d’autre : ${seats}.`,
};

/** The words of a language, else English. */
export function wordsOf(language) {
  return { en: ENGLISH, de: GERMAN, fr: FRENCH }[(language || 'en').slice(0, 2).toLowerCase()] || ENGLISH;
}
