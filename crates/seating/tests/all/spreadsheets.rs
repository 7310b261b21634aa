use boxoffice_seating::{AmountError, SeatFile, minor_units, read_products, read_seats};
use expect_test::{Expect, expect};

use crate::told;

fn check(bytes: impl AsRef<[u8]>, words: Expect) {
    let text = match read_seats(bytes.as_ref()) {
        Ok(SeatFile { seating, prices, .. }) => {
            let prices: Vec<String> = prices.iter().map(|(category, (_, price))| format!("{category} {price}")).collect();
            let prices = if prices.is_empty() { String::new() } else { format!("prices: {}\n", prices.join(", ")) };
            told(&seating) + &prices
        }
        Err(why) => why,
    };
    words.assert_eq(&text);
}

fn utf_16(text: &str, little: bool, mark: bool) -> Vec<u8> {
    let units = mark.then_some(0xfeff).into_iter().chain(text.encode_utf16());
    units.flat_map(|unit| if little { unit.to_le_bytes() } else { unit.to_be_bytes() }).collect()
}

const GERMAN: &str = "Reihe;Platz;Kategorie;Preis\nA;1;Parkett rechts;12,50\nA;2;Parkett rechts;12,50\n";

#[test]
fn a_header_of_any_language_is_shown_back() {
    check("row_name,seat_number\nA,1\n", expect![[r#""#]]);
    check("Fila,Butaca,Categoria\nA,1,Platea\n", expect![[r#""#]]);
    check("Row Number,Seat Number\n1,1\n", expect![[r#""#]]);
    check("section_name,row_name,seat_number\nLeft,A,1\n", expect![[r#""#]]);
    check(GERMAN, expect![[r#""#]]);
    check("Rząd;Miejsce;Sektor\nI;1;Balkon\n", expect![[r#""#]]);
}

#[test]
fn a_first_line_that_looks_like_names_is_never_a_seat() {
    check("sor,szék\nA,1\nA,2\n", expect![[r#""#]]);
    check("row,chairs\nA,1\n", expect![[r#""#]]);
    check("row,seat,kategory\nA,1,x\n", expect![[r#""#]]);
    check("row,seat,row\nA,1,A\n", expect![[r#""#]]);
    check("Sitz,Notizen\n1,frei\n", expect![[r#""#]]);
}

#[test]
fn the_separator_is_found_said_or_asked_for() {
    check("A;1;12,50\n", expect![[r#""#]]);
    check("Reihe;Platz;Preis\nA;1;12,50\n", expect![[r#""#]]);
    check("A\t1\tstalls\nA\t2\tstalls\n", expect![[r#""#]]);
    check("A;1\nA;2\n", expect![[r#""#]]);
    check("sep=;\nrow;seat\nA;1\n", expect![[r#""#]]);
    check("\"sep=,\"\r\nA,1\r\nA,2\r\n", expect![[r#""#]]);
    check("sep=\nA,1\n", expect![[r#""#]]);
    check("row,seat\nA;1\n", expect![[r#""#]]);
    check("A1\nA2\n", expect![[r#""#]]);
    check("row,seat,price\nA,1,12,50\n", expect![[r#""#]]);
    check("row;seat;category\n\"A\";\"1\";\"a;b\"\n", expect![[r#""#]]);
}

#[test]
fn what_spreadsheets_add_is_left_out() {
    check("row,seat,,\nA,1,,\n,,,\nA,2,,\n\n", expect![[r#""#]]);
    check("row,seat,,\nA,1,,x\n", expect![[r#""#]]);
    check("row,seat,#remark\nA,1,broken\n", expect![[r#""#]]);
    check("\u{feff}row,seat\r\nA,1\r\n", expect![[r#""#]]);
    check("row,seat\rA,1\rA,2\r", expect![[r#""#]]);
    check(" row , seat \n A\u{a0}, 1 \n", expect![[r#""#]]);
}

#[test]
fn quotes_that_do_not_match_are_refused() {
    check("row,seat,category\nA,\"1,a\nA,2,a\nA,3,a\n", expect![[r#""#]]);
    check("row,seat,category\nA,\"1\"x,a\n", expect![[r#""#]]);
    check("row,seat\n\"A \"\"1\"\"\",1\n", expect![[r#""#]]);
}

#[test]
fn any_usual_encoding_is_read() {
    let text = "Reihe;Platz;Bereich\nA;1;Süd – 1. Rang €\n";
    let expected = || expect![[r#""#]];
    for bytes in [utf_16(text, true, true), utf_16(text, false, true), utf_16(text, true, false), utf_16(text, false, false)] {
        check(bytes, expected());
    }
    check(b"Reihe;Platz;Bereich\nA;1;S\xfcd \x96 1. Rang \x80\n", expect![[r#""#]]);
    check(b"Rz\xb9d;Miejsce\nA;1\n", expect![[r#""#]]);
    check(b"row;seat;section\nA;1;S\xc3\xbcd\nA;2;S\xfcd\n", expect![[r#""#]]);
    check(b"row;seat\nA;\x81\n", expect![[r#""#]]);
    check("row;seat\nA\u{fffd};1\n", expect![[r#""#]]);
    check(b"PK\x03\x04rest", expect![[r#""#]]);
    check(b"row,seat\nA,1\n\0", expect![[r#""#]]);
    check([0xff, 0xfe, 0x00, 0xd8], expect![[r#""#]]);
}

#[test]
fn rows_and_seats_in_text_order_are_sorted_by_number() {
    let seats = |row: &str, seats: &[u32]| seats.iter().map(|seat| format!("{row},{seat}\n")).collect::<String>();
    let text = format!("row,seat\n{}{}{}", seats("1", &[1, 10, 11, 2, 3]), seats("10", &[1]), seats("2", &[1]));
    check(text, expect![[r#""#]]);
    // As houses number: downward, odd numbers on one side, from the middle, with a gap.
    check("row,seat\nA,3\nA,2\nA,1\n", expect![[r#""#]]);
    check("row,seat\nA,5\nA,3\nA,1\nA,2\nA,4\n", expect![[r#""#]]);
    check("row,seat\nA,2\nA,1\nA,\nA,3\nA,4\n", expect![[r#""#]]);
    // No house does.
    check("row,seat\nA,3\nA,1\nA,4\nA,2\n", expect![[r#""#]]);
    check("row,seat\nB,1\nA,1\nC,1\n", expect![[r#""#]]);
    check("row,seat\nA,1\nA,10\nA,\nA,2\n", expect![[r#""#]]);
}

#[test]
fn a_price_is_read_or_refused_and_never_a_thousand_times_as_much() {
    let amounts = |text: &str, digits: u32| -> Result<Vec<Result<i64, AmountError>>, String> {
        let file = read_seats(text.as_bytes())?;
        Ok(file.prices.values().map(|(_, price)| minor_units(price, file.decimal_mark, digits)).collect())
    };
    let table = |prices: &[&str]| {
        let lines = prices.iter().enumerate().map(|(number, price)| format!("A;{number};c{number};\"{price}\"\n"));
        format!("row;seat;category;price\n{}", lines.collect::<String>())
    };
    assert_eq!(amounts(&table(&["12,50", "1.234"]), 2), Ok(vec![Ok(1_250), Ok(123_400)]));
    assert_eq!(amounts(&table(&["1.234"]), 2), Ok(vec![Err(AmountError::Ambiguous)]));
    assert_eq!(amounts(&table(&["1.234"]), 3), Ok(vec![Ok(1_234)]));
    check(table(&["12,50", "3.75"]), expect![[r#""#]]);
    check(table(&["free"]), expect![[r#""#]]);
    check("row;seat;category;price\nA;1;a;10\nA;2;a;12\n", expect![[r#""#]]);
    check("row;seat;price\nA;1;12,50\nA;2;7\n", expect![[r#""#]]);
}

#[test]
fn mistakes_are_named_with_line_and_column() {
    check("", expect![[r#""#]]);
    check("row,seat,category\n", expect![[r#""#]]);
    check("row,seat\nA,1\n,2\n", expect![[r#""#]]);
    check("row,seat\nA,1\nB,1\nA,1\n", expect![[r#""#]]);
    check("A,1,standard,,maybe\n", expect![[r#""#]]);
    check("A,1,standard,,,1\n", expect![[r#""#]]);
    check("A,1,standard,,,1,zwei\n", expect![[r#""#]]);
    check("A,1,standard,,,1,99999999999\n", expect![[r#""#]]);
    check("A,1,standard,,,1,2,3,4\n", expect![[r#""#]]);
    check(format!("A,{}\n", "9".repeat(40)), expect![[r#""#]]);
    check("row,seat\nA,\"1\n2\"\n", expect![[r#""#]]);
}

#[test]
fn names_become_ids_and_stay_names() {
    check("Reihe;Platz;Bereich;Kategorie\nA;1;Süd;1. Rang\nA;1;東上B;1. Rang\nA;1;Sud;vip\n", expect![[r#""#]]);
}

fn products(text: &str) -> String {
    let digits = |code: &str| match code {
        "EUR" | "USD" => Some(2),
        "KWD" => Some(3),
        "JPY" => Some(0),
        _ => None,
    };
    match read_products(text.as_bytes(), "EUR", digits) {
        Ok(file) => {
            let line = |line: &boxoffice_seating::ProductLine| {
                format!("{} {:?} {} {} × {}\n", line.id, line.name, line.amount, line.currency, line.stock)
            };
            file.products.iter().map(line).chain(file.notes.iter().map(|note| format!("note: {note}\n"))).collect()
        }
        Err(why) => why,
    }
}

#[test]
fn products_are_read_with_decimal_commas() {
    expect![[r#""#]].assert_eq(&products("Artikelnummer;Bezeichnung;Preis;Bestand\n4711;Programmheft;2,50;1.000\nB 7;Plakat groß;1.234,00;5\n"));
    expect![[r#""#]].assert_eq(&products("name,price,stock,currency\nCup,1.234,5,KWD\nMug,\"1,50\",7,\n"));
    let refused: String = [
        "name,price,stock\nCup,1.234,5\n",
        "name,price,stock\nCup,1.50,1.000\n",
        "name,price,stock\nCup,1.5,5\nCup,2,5\n",
        "name,price,stock\nCup,1.555,5\nMug,2.5,5\n",
        "name,price,stock,currency\nCup,1,5,Euro\n",
        "name,price,stock\nCup,1,50,5\n",
        "name,price\nCup,1\n",
        "Name;Preis;Bestand\n東;1;1\n",
    ]
    .into_iter()
    .map(|wrong| products(wrong) + "\n")
    .collect();
    expect![[r#""#]].assert_eq(&refused);
}
