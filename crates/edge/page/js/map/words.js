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
  code: {
    have: 'I have a code', label: 'Code', use: 'Use it', remove: 'Remove the code',
    used: (code) => `Your code ${code} is used when you hold something here. The price with it is shown then.`,
    form: 'A code has up to 64 letters and digits, and no other signs than . - _ :',
    wrong: 'This code is not valid here, or it is used up. Nothing was held. Please check it, or remove it.',
    wait: (seconds) => `Too much was tried from your network. Please try again in ${seconds === 1 ? 'a second' : `${seconds} seconds`}.`,
    again: 'You can try again now.', other: 'Your code may be for another price. Please choose one.',
    bought: (names) => `With your code: ${names}.`, unused: 'None of this needed your code.',
  },
  companion: (seat) => `${seat} is for somebody who comes along. Pick the wheelchair place beside it first.`,
  single: (seats) => `This would leave a single seat free: ${seats}.`, party: (count) => `Please choose at least ${count} seats.`,
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
  code: {
    have: 'Ich habe einen Code', label: 'Code', use: 'Verwenden', remove: 'Code entfernen',
    used: (code) => `Ihr Code ${code} wird verwendet, wenn Sie hier etwas reservieren. Den Preis damit sehen Sie dann.`,
    form: 'Ein Code hat bis zu 64 Buchstaben und Ziffern und keine anderen Zeichen als . - _ :',
    wrong: 'Dieser Code gilt hier nicht oder ist aufgebraucht. Es wurde nichts reserviert. Bitte prüfen oder entfernen Sie ihn.',
    wait: (seconds) => `Aus Ihrem Netz wurde zu viel versucht. Bitte versuchen Sie es in ${seconds === 1 ? 'einer Sekunde' : `${seconds} Sekunden`} wieder.`,
    again: 'Sie können es jetzt wieder versuchen.', other: 'Ihr Code gilt vielleicht für einen anderen Preis. Bitte wählen Sie einen.',
    bought: (names) => `Mit Ihrem Code: ${names}.`, unused: 'Dafür war Ihr Code nicht nötig.',
  },
  companion: (seat) => `${seat} ist für eine Begleitung. Bitte zuerst den Rollstuhlplatz daneben wählen.`,
  single: (seats) => `So bliebe ein einzelner Platz frei: ${seats}.`, party: (count) => `Bitte wählen Sie mindestens ${count} Plätze.`,
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
  code: {
    have: 'J’ai un code', label: 'Code', use: 'Utiliser', remove: 'Retirer le code',
    used: (code) => `Votre code ${code} sera utilisé quand vous réserverez ici. Le prix avec ce code s’affiche ensuite.`,
    form: 'Un code a au plus 64 lettres et chiffres, et pas d’autres signes que . - _ :',
    wrong: 'Ce code n’est pas valable ici, ou il est épuisé. Rien n’a été réservé. Veuillez le vérifier ou le retirer.',
    wait: (seconds) => `Trop d’essais depuis votre réseau. Veuillez réessayer dans ${seconds === 1 ? 'une seconde' : `${seconds} secondes`}.`,
    again: 'Vous pouvez réessayer maintenant.', other: 'Votre code est peut-être pour un autre tarif. Veuillez en choisir un.',
    bought: (names) => `Avec votre code : ${names}.`, unused: 'Votre code n’était pas nécessaire ici.',
  },
  companion: (seat) => `${seat} est pour un accompagnant. Choisissez d’abord la place pour fauteuil roulant à côté.`,
  single: (seats) => `Il resterait une place isolée : ${seats}.`, party: (count) => `Veuillez choisir au moins ${count} places.`,
};

/** The words of a language, else English. */
export function wordsOf(language) {
  return { en: ENGLISH, de: GERMAN, fr: FRENCH }[(language || 'en').slice(0, 2).toLowerCase()] || ENGLISH;
}
