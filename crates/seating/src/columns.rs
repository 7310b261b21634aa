//! The columns of a spreadsheet by the names that people give them, in eight languages.

use std::{collections::BTreeMap, sync::LazyLock};

use unicode_normalization::UnicodeNormalization;

/// What a column says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Column {
    Row,
    Seat,
    Category,
    Section,
    Accessible,
    X,
    Y,
    Price,
    Id,
    Name,
    Stock,
    Currency,
}

impl Column {
    /// Its name in messages and in files of our own.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Column::Row => "row",
            Column::Seat => "seat",
            Column::Category => "category",
            Column::Section => "section",
            Column::Accessible => "accessible",
            Column::X => "x",
            Column::Y => "y",
            Column::Price => "price",
            Column::Id => "id",
            Column::Name => "name",
            Column::Stock => "stock",
            Column::Currency => "currency",
        }
    }
}

/// The languages, by their BCP 47 tags.
pub const LANGUAGES: [&str; 8] = ["en", "de", "fr", "es", "it", "nl", "pt", "pl"];

/// Names of one column, for each of [`LANGUAGES`] in that order.
pub(crate) type Words = (Column, [&'static [&'static str]; LANGUAGES.len()]);

/// The columns of a file of seats. Case, accents, blanks and punctuation do not count.
const SEAT_WORDS: &[Words] = &[
    (
        Column::Row,
        [
            &["row", "row name", "row number", "row no", "row label", "row id"],
            &["Reihe", "Reihennummer", "Reihen-Nr.", "Reihe Nr.", "Sitzreihe"],
            &["rang", "rangée", "numéro de rang", "n° de rang", "nom du rang"],
            &["fila", "número de fila", "n.º de fila", "hilera"],
            &["fila", "numero fila", "numero di fila", "n. fila"],
            &["rij", "rijnummer", "rij nr."],
            &["fila", "fileira", "número da fila", "n.º da fila"],
            &["rząd", "numer rzędu", "nr rzędu"],
        ],
    ),
    (
        Column::Seat,
        [
            &["seat", "seat name", "seat number", "seat no", "seat label", "chair", "place", "number"],
            &[
                "Platz",
                "Platznummer",
                "Platz-Nr.",
                "Sitz",
                "Sitznummer",
                "Sitz-Nr.",
                "Sitzplatz",
                "Sitzplatznummer",
                "Stuhl",
                "Nummer",
            ],
            &[
                "siège",
                "place",
                "fauteuil",
                "numéro de siège",
                "n° de siège",
                "numéro de place",
                "n° de place",
                "numéro",
            ],
            &["asiento", "butaca", "número de asiento", "n.º de asiento", "número de butaca", "localidad", "número"],
            &["posto", "poltrona", "sedile", "numero posto", "numero di posto", "n. posto", "numero"],
            &["stoel", "stoelnummer", "stoel nr.", "plaats", "zitplaats", "nummer"],
            &[
                "lugar",
                "assento",
                "cadeira",
                "poltrona",
                "número do lugar",
                "n.º do lugar",
                "número do assento",
                "número",
            ],
            &["miejsce", "numer miejsca", "nr miejsca", "fotel", "numer"],
        ],
    ),
    (
        Column::Category,
        [
            &["category", "price category", "price level", "price zone", "class", "seat category"],
            &["Kategorie", "Preiskategorie", "Preisgruppe", "Preisklasse", "Platzkategorie", "Preiszone"],
            &["catégorie", "catégorie de prix", "classe"],
            &["categoría", "categoría de precio", "clase"],
            &["categoria", "categoria di prezzo", "classe"],
            &["categorie", "prijscategorie", "prijsklasse"],
            &["categoria", "categoria de preço", "classe"],
            &["kategoria", "kategoria cenowa", "klasa"],
        ],
    ),
    (
        Column::Section,
        [
            &["section", "section name", "block", "area", "zone", "part", "level", "sector"],
            &["Bereich", "Block", "Sektor", "Abschnitt", "Saalteil", "Rang", "Zone"],
            &["section", "bloc", "zone", "secteur", "niveau"],
            &["sección", "zona", "sector", "bloque", "nivel"],
            &["settore", "sezione", "zona", "blocco", "livello"],
            &["sectie", "vak", "blok", "zone", "sector"],
            &["secção", "seção", "setor", "zona", "bloco", "nível"],
            &["sektor", "sekcja", "strefa", "blok", "poziom"],
        ],
    ),
    (
        Column::Accessible,
        [
            &["accessible", "wheelchair", "wheelchair accessible", "accessibility", "disabled"],
            &["barrierefrei", "Rollstuhl", "Rollstuhlplatz", "rollstuhlgerecht", "behindertengerecht"],
            &["accessible", "PMR", "fauteuil roulant", "handicapé"],
            &["accesible", "silla de ruedas", "PMR", "minusválidos"],
            &["accessibile", "disabili", "sedia a rotelle", "carrozzina"],
            &["toegankelijk", "rolstoel", "rolstoelplaats"],
            &["acessível", "cadeira de rodas", "mobilidade reduzida"],
            &["dostępne", "dla niepełnosprawnych", "wózek"],
        ],
    ),
    (
        Column::X,
        [
            &["x", "x position", "pos x", "cx"],
            &["x-Koordinate", "x-Position"],
            &["coordonnée x", "position x"],
            &["coordenada x", "posición x"],
            &["coordinata x", "posizione x"],
            &["x-coördinaat", "x-positie"],
            &["coordenada x", "posição x"],
            &["współrzędna x", "pozycja x"],
        ],
    ),
    (
        Column::Y,
        [
            &["y", "y position", "pos y", "cy"],
            &["y-Koordinate", "y-Position"],
            &["coordonnée y", "position y"],
            &["coordenada y", "posición y"],
            &["coordinata y", "posizione y"],
            &["y-coördinaat", "y-positie"],
            &["coordenada y", "posição y"],
            &["współrzędna y", "pozycja y"],
        ],
    ),
    PRICE,
];

const PRICE: Words = (
    Column::Price,
    [
        &["price", "amount", "cost", "unit price"],
        &["Preis", "Betrag", "Einzelpreis", "Verkaufspreis"],
        &["prix", "tarif", "prix unitaire", "montant"],
        &["precio", "importe", "precio unitario"],
        &["prezzo", "prezzo unitario", "importo"],
        &["prijs", "stukprijs", "bedrag"],
        &["preço", "preço unitário", "valor"],
        &["cena", "cena jednostkowa", "kwota"],
    ],
);

/// The columns of a list of products.
const PRODUCT_WORDS: &[Words] = &[
    (
        Column::Id,
        [
            &["id", "sku", "code", "article number", "item number", "product id", "product code"],
            &["Artikelnummer", "Artikel-Nr.", "Bestellnummer", "Produktnummer"],
            &["référence", "code article", "code produit"],
            &["código", "referencia", "código de producto"],
            &["codice", "codice articolo", "codice prodotto"],
            &["artikelnummer", "productcode", "productnummer"],
            &["código", "referência", "código do produto"],
            &["kod", "numer artykułu", "kod produktu"],
        ],
    ),
    (
        Column::Name,
        [
            &["name", "title", "product", "product name", "item", "article", "description"],
            &[
                "Name",
                "Bezeichnung",
                "Produkt",
                "Artikel",
                "Artikelname",
                "Artikelbezeichnung",
                "Titel",
                "Beschreibung",
            ],
            &["nom", "désignation", "produit", "article", "libellé"],
            &["nombre", "producto", "artículo", "descripción"],
            &["nome", "prodotto", "articolo", "descrizione"],
            &["naam", "product", "artikel", "omschrijving"],
            &["nome", "produto", "artigo", "descrição"],
            &["nazwa", "produkt", "towar", "artykuł"],
        ],
    ),
    PRICE,
    (
        Column::Stock,
        [
            &["stock", "quantity", "qty", "units", "in stock", "inventory"],
            &["Bestand", "Lagerbestand", "Menge", "Anzahl", "Stück", "Stückzahl"],
            &["stock", "quantité", "en stock"],
            &["existencias", "cantidad", "stock"],
            &["giacenza", "quantità", "scorte", "disponibilità"],
            &["voorraad", "aantal"],
            &["estoque", "stock", "quantidade", "existências"],
            &["stan", "stan magazynowy", "ilość", "zapas"],
        ],
    ),
    (
        Column::Currency,
        [
            &["currency"],
            &["Währung"],
            &["devise", "monnaie"],
            &["moneda", "divisa"],
            &["valuta"],
            &["valuta", "munteenheid"],
            &["moeda"],
            &["waluta"],
        ],
    ),
];

/// The columns of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Columns {
    /// What each place says. `None` is left out.
    pub places: Vec<Option<Column>>,
    /// The language of the names, or `None` without names.
    pub language: Option<&'static str>,
    /// The names as they stand in the file. Empty without names.
    pub names: Vec<String>,
}

/// What a first line is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Header {
    /// It names columns.
    Names(Columns),
    /// It names some, but not in a way that can be used.
    Unusable(String),
    /// It has no name of a column.
    None,
}

impl Columns {
    /// The columns in this order, for a file without names.
    pub(crate) fn in_order(columns: &[Column]) -> Columns {
        Columns { places: columns.iter().copied().map(Some).collect(), language: None, names: Vec::new() }
    }

    /// The place of a column, from 0.
    pub(crate) fn place(&self, column: Column) -> Option<usize> {
        self.places.iter().position(|place| *place == Some(column))
    }

    /// What was understood, like `row ← Reihe, seat ← Platz`.
    pub(crate) fn shown(&self) -> String {
        let named = |(place, column): (usize, &Option<Column>)| {
            let column = (*column)?;
            let number = || format!("column {}", place + 1);
            Some(format!("{} ← {}", column.name(), self.names.get(place).cloned().unwrap_or_else(number)))
        };
        self.places.iter().enumerate().filter_map(named).collect::<Vec<_>>().join(", ")
    }
}

/// The words of a table as a name is compared: without case, accents, blanks and punctuation.
fn plain(name: &str) -> String {
    let letters = name.nfkd().flat_map(char::to_lowercase).map(|letter| match letter {
        'ł' => 'l',
        'º' | '°' | 'ª' => 'o',
        other => other,
    });
    letters.filter(|letter| letter.is_alphanumeric()).collect()
}

/// The columns of a kind of file by their names.
pub(crate) struct Vocabulary {
    words: &'static [Words],
    /// The columns by language and plain name.
    known: LazyLock<BTreeMap<(usize, String), Column>>,
}

/// The names of the columns of a file of seats.
pub(crate) static SEATS: Vocabulary = Vocabulary { words: SEAT_WORDS, known: LazyLock::new(|| index(SEAT_WORDS)) };

/// The names of the columns of a list of products.
pub(crate) static PRODUCTS: Vocabulary =
    Vocabulary { words: PRODUCT_WORDS, known: LazyLock::new(|| index(PRODUCT_WORDS)) };

fn index(words: &[Words]) -> BTreeMap<(usize, String), Column> {
    let of = |(column, names): &Words| {
        let column = *column;
        let names =
            names.iter().enumerate().flat_map(|(language, names)| names.iter().map(move |name| (language, *name)));
        names.map(move |(language, name)| ((language, plain(name)), column)).collect::<Vec<_>>()
    };
    words.iter().flat_map(of).collect()
}

impl Vocabulary {
    /// The column with this plain name in a language.
    fn column(&self, language: usize, name: &str) -> Option<Column> {
        self.known.get(&(language, name.to_owned())).copied()
    }

    /// The column with this plain name in any language.
    fn column_anywhere(&self, name: &str) -> Option<Column> {
        (0..LANGUAGES.len()).find_map(|language| self.column(language, name))
    }
}

/// Whether the fields of a line are meant to name columns of a table.
pub(crate) fn is_header(vocabulary: &Vocabulary, required: &[Column], fields: &[String]) -> bool {
    !matches!(header(vocabulary, required, fields, 1), Header::None)
}

/// What the fields of the first line are. `line` is its number for messages.
///
/// A name may say one thing in one language and another in the next (`Rang` is a row in French and a balcony in German), so the
/// whole line is read in each language, and the one that fits most of it counts. Names that a language does not know may be those
/// of another.
pub(crate) fn header(vocabulary: &Vocabulary, required: &[Column], fields: &[String], line: u64) -> Header {
    // `x` and `y` are labels as well.
    let plain_fields: Vec<String> = fields.iter().map(|field| plain(field)).collect();
    let says_something = |field: &String| {
        vocabulary.column_anywhere(field).is_some_and(|column| !matches!(column, Column::X | Column::Y))
    };
    if !plain_fields.iter().any(says_something) {
        return Header::None;
    }
    let (mut best, mut language, mut places) = ((0, 0), LANGUAGES[0], Vec::new());
    for (number, tag) in LANGUAGES.into_iter().enumerate() {
        let own: Vec<Option<Column>> = plain_fields.iter().map(|field| vocabulary.column(number, field)).collect();
        let fitting = own.iter().flatten().count();
        let anywhere = |(own, field): (&Option<Column>, &String)| own.or_else(|| vocabulary.column_anywhere(field));
        let read: Vec<Option<Column>> = own.iter().zip(&plain_fields).map(anywhere).collect();
        let has = |column: &Column| read.iter().flatten().any(|place| place == column);
        let known = required.iter().filter(|column| has(column)).count();
        if places.is_empty() || (known, fitting) > best {
            (best, language, places) = ((known, fitting), tag, read);
        }
    }
    let shown = || fields.iter().map(|field| format!("`{field}`")).collect::<Vec<_>>().join(", ");
    let missing: Vec<&str> =
        required.iter().filter(|column| !places.contains(&Some(**column))).map(|column| column.name()).collect();
    if !missing.is_empty() {
        return Header::Unusable(format!(
            "line {line} names columns ({}), and none of them is the {}; call it `{}`",
            shown(),
            missing.join(" or the "),
            missing.join("` or `"),
        ));
    }
    for (place, field) in fields.iter().enumerate() {
        let at = format!("line {line}, column {}", place + 1);
        let Some(column) = places[place] else {
            // A column of notes.
            if field.is_empty() || field.starts_with('#') {
                continue;
            }
            let known: Vec<&str> = vocabulary.words.iter().map(|(column, _)| column.name()).collect();
            return Header::Unusable(format!(
                "{at}: there is no column {field:?}; there may be {}, and a name that begins with # is left out",
                known.join(",")
            ));
        };
        let first = places.iter().position(|known| *known == Some(column)).expect("it is at this place");
        if first < place {
            return Header::Unusable(format!(
                "{at}: the {} is there twice, as `{}` and `{field}`",
                column.name(),
                fields[first]
            ));
        }
    }
    for (place, field) in places.iter_mut().zip(fields) {
        if field.starts_with('#') {
            *place = None;
        }
    }
    Header::Names(Columns { places, language: Some(language), names: fields.to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn every_name_is_known_in_its_language_however_it_is_written() {
        let of_seats = (&SEATS, [Column::Row, Column::Seat]);
        for (vocabulary, required) in [of_seats, (&PRODUCTS, [Column::Name, Column::Price])] {
            let table = vocabulary.words;
            for (language, tag) in LANGUAGES.into_iter().enumerate() {
                let word = |column: Column| {
                    let words = table.iter().find(|(known, _)| *known == column).expect("a column").1[language];
                    words[0]
                };
                for (column, words) in table {
                    assert!(!words[language].is_empty(), "{tag} has a word for {column:?}");
                    for name in words[language] {
                        for written in [
                            (*name).to_owned(),
                            name.to_uppercase(),
                            name.nfd().collect(),
                            name.nfd().filter(|letter| !('\u{300}'..='\u{36f}').contains(letter)).collect(),
                            name.replace([' ', '-'], "_"),
                            name.replace([' ', '-'], ""),
                            format!(" {name}: "),
                        ] {
                            let others = required.into_iter().filter(|other| other != column);
                            let mut line: Vec<String> = others.map(|other| word(other).to_owned()).collect();
                            line.insert(0, written.clone());
                            // A second word of the language decides what a word of two languages means.
                            let Header::Names(columns) = header(vocabulary, &required, &line, 1) else {
                                panic!("{tag}: {line:?} is {:?}", header(vocabulary, &required, &line, 1));
                            };
                            assert_eq!(columns.place(*column), Some(0), "{tag}: {line:?} is {}", columns.shown());
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn no_name_says_two_things_in_one_language() {
        for table in [SEAT_WORDS, PRODUCT_WORDS] {
            for (language, tag) in LANGUAGES.into_iter().enumerate() {
                let mut all: Vec<(String, Column)> = Vec::new();
                for (column, words) in table {
                    all.extend(words[language].iter().map(|word| (plain(word), *column)));
                }
                for (word, column) in &all {
                    let other = all.iter().find(|(known, other)| known == word && other != column);
                    assert_eq!(other, None, "{word} in {tag}");
                }
            }
        }
    }

    #[test]
    fn a_word_of_two_languages_is_read_in_that_of_the_line() {
        let shown = |names: &[&str]| match header(&SEATS, &[Column::Row, Column::Seat], &fields(names), 1) {
            Header::Names(columns) => format!("{} ({})", columns.shown(), columns.language.expect("a language")),
            Header::Unusable(why) => why,
            Header::None => "no names".into(),
        };
        assert_eq!(shown(&["Rang", "Reihe", "Platz"]), "section ← Rang, row ← Reihe, seat ← Platz (de)");
        assert_eq!(shown(&["rang", "place", "zone"]), "row ← rang, seat ← place, section ← zone (fr)");
        assert_eq!(shown(&["Reihe", "seat"]), "row ← Reihe, seat ← seat (en)");
        assert_eq!(shown(&["A", "1"]), "no names");
        assert_eq!(shown(&["X", "1"]), "no names");
        assert_eq!(
            shown(&["row_name", "sitting"]),
            "line 1 names columns (`row_name`, `sitting`), and none of them is the seat; call it `seat`"
        );
        assert_eq!(
            shown(&["row", "seat", "Platz"]),
            "line 1, column 3: the seat is there twice, as `seat` and `Platz`"
        );
        assert_eq!(shown(&["row", "seat", "#who", ""]), "row ← row, seat ← seat (en)");
    }
}
