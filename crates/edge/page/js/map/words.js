// The texts of a seat map, by language.

const ENGLISH = {
  map: 'Seat map', help: 'Arrow keys move between seats, Enter or Space picks one, plus and minus zoom, 0 shows the whole house.',
  states: ['free', 'held by somebody', 'sold', 'not for sale'], picked: 'picked', mine: 'yours', accessible: 'wheelchair place',
  zoomIn: 'Closer', zoomOut: 'Further away', fit: 'The whole house',
  taken: (seat, state) => `${seat} is ${state}.`, most: (count) => `At most ${count} seats at once.`,
  lost: (seats) => `Just taken by somebody else: ${seats}.`,
  row: (label) => `Row ${label}`, seat: (label) => `seat ${label}`, stage: 'Stage',
  legend: 'Categories and prices', places: 'Standing places', free: (count) => `${count} free`, soldOut: 'sold out',
  closed: {
    canceled: ({ canceled }) => `This show does not take place: ${canceled}`, over: () => 'This show is over.',
    not_yet: () => 'This show is not on sale yet.', begun: () => 'This show has begun.',
    ended: () => 'This is not on sale.',
  },
  opens: (time) => `The sale opens on ${time}.`, opensIn: (left) => `Opens in ${left}`, days: (count) => `${count} days`,
  priceFor: (name) => `Price for ${name}`, left: (count) => `${count} left`, notSold: 'not on sale', price: 'Price', pickedSeats: 'Picked seats',
  held: (count) => `${count} yours`, less: (name) => `${name}: one less`, more: (name) => `${name}: one more`,
};

const GERMAN = {
  map: 'Saalplan', help: 'Pfeiltasten wechseln den Platz, Eingabe oder Leertaste wählt ihn, Plus und Minus vergrößern, 0 zeigt den ganzen Saal.',
  states: ['frei', 'reserviert', 'verkauft', 'nicht im Verkauf'], picked: 'gewählt', mine: 'Ihrer', accessible: 'Rollstuhlplatz',
  zoomIn: 'Näher', zoomOut: 'Weiter weg', fit: 'Ganzer Saal',
  taken: (seat, state) => `${seat} ist ${state}.`, most: (count) => `Höchstens ${count} Plätze auf einmal.`,
  lost: (seats) => `Gerade von jemand anderem genommen: ${seats}.`,
  row: (label) => `Reihe ${label}`, seat: (label) => `Platz ${label}`, stage: 'Bühne',
  legend: 'Kategorien und Preise', places: 'Stehplätze', free: (count) => `${count} frei`, soldOut: 'ausverkauft',
  closed: {
    canceled: ({ canceled }) => `Diese Vorstellung findet nicht statt: ${canceled}`, over: () => 'Diese Vorstellung ist vorbei.',
    not_yet: () => 'Diese Vorstellung ist noch nicht im Verkauf.', begun: () => 'Diese Vorstellung hat begonnen.',
    ended: () => 'Dies ist nicht im Verkauf.',
  },
  opens: (time) => `Der Verkauf beginnt am ${time}.`, opensIn: (left) => `Noch ${left}`, days: (count) => `${count} Tage`,
  priceFor: (name) => `Preis für ${name}`, left: (count) => `noch ${count}`, notSold: 'nicht im Verkauf', price: 'Preis', pickedSeats: 'Gewählte Plätze',
  held: (count) => `${count} für Sie`, less: (name) => `${name}: einer weniger`, more: (name) => `${name}: einer mehr`,
};

const FRENCH = {
  map: 'Plan de salle', help: 'Les flèches changent de place, Entrée ou Espace la choisit, plus et moins agrandissent, 0 montre toute la salle.',
  states: ['libre', 'réservée', 'vendue', 'hors vente'], picked: 'choisie', mine: 'à vous', accessible: 'place pour fauteuil roulant',
  zoomIn: 'Plus près', zoomOut: 'Plus loin', fit: 'Toute la salle',
  taken: (seat, state) => `${seat} : ${state}.`, most: (count) => `Au plus ${count} places à la fois.`,
  lost: (seats) => `Prises à l’instant par quelqu’un d’autre : ${seats}.`,
  row: (label) => `Rang ${label}`, seat: (label) => `place ${label}`, stage: 'Scène',
  legend: 'Catégories et prix', places: 'Places debout', free: (count) => `${count} libres`, soldOut: 'complet',
  closed: {
    canceled: ({ canceled }) => `Cette séance n’a pas lieu : ${canceled}`, over: () => 'Cette séance est terminée.',
    not_yet: () => 'Cette séance n’est pas encore en vente.', begun: () => 'Cette séance a commencé.',
    ended: () => 'Ce n’est pas en vente.',
  },
  opens: (time) => `La vente ouvre le ${time}.`, opensIn: (left) => `Ouverture dans ${left}`, days: (count) => `${count} jours`,
  priceFor: (name) => `Tarif pour ${name}`, left: (count) => `il en reste ${count}`, notSold: 'hors vente', price: 'Tarif', pickedSeats: 'Places choisies',
  held: (count) => `${count} à vous`, less: (name) => `${name} : une de moins`, more: (name) => `${name} : une de plus`,
};

/** The words of a language, else English. */
export function wordsOf(language) {
  return { en: ENGLISH, de: GERMAN, fr: FRENCH }[(language || 'en').slice(0, 2).toLowerCase()] || ENGLISH;
}
