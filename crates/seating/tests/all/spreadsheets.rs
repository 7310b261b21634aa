use boxoffice_seating::{AmountError, SeatFile, minor_units, read_products, read_seats};
use expect_test::{Expect, expect};

use crate::told;

fn check(bytes: impl AsRef<[u8]>, words: Expect) {
    let text = match read_seats(bytes.as_ref()) {
        Ok(SeatFile { seating, prices, .. }) => {
            let prices: Vec<String> =
                prices.iter().map(|(category, (_, price))| format!("{category} {price}")).collect();
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
    check(
        "row_name,seat_number\nA,1\n",
        expect![[r#"
        A: 1(standard)
        note: row ← row_name, seat ← seat_number; commas between the columns, UTF-8
    "#]],
    );
    check(
        "Fila,Butaca,Categoria\nA,1,Platea\n",
        expect![[r#"
        A: 1(Platea)
        note: row ← Fila, seat ← Butaca, category ← Categoria; commas between the columns, UTF-8
    "#]],
    );
    check(
        "Row Number,Seat Number\n1,1\n",
        expect![[r#"
        1: 1(standard)
        note: row ← Row Number, seat ← Seat Number; commas between the columns, UTF-8
    "#]],
    );
    check(
        "section_name,row_name,seat_number\nLeft,A,1\n",
        expect![[r#"
        Left/A: 1(standard)
        note: section ← section_name, row ← row_name, seat ← seat_number; commas between the columns, UTF-8
    "#]],
    );
    check(
        GERMAN,
        expect![[r#"
        A: 1(parkett-rechts) 2
        category parkett-rechts is Parkett rechts (de)
        note: row ← Reihe, seat ← Platz, category ← Kategorie, price ← Preis; semicolons between the columns, UTF-8
        note: ids for each category: Parkett rechts is parkett-rechts
        prices: Parkett rechts 12,50
    "#]],
    );
    check(
        "Rząd;Miejsce;Sektor\nI;1;Balkon\n",
        expect![[r#"
        Balkon/I: 1(standard)
        note: row ← Rząd, seat ← Miejsce, section ← Sektor; semicolons between the columns, UTF-8
    "#]],
    );
}

#[test]
fn a_first_line_that_looks_like_names_is_never_a_seat() {
    check(
        "sor,szék\nA,1\nA,2\n",
        expect![
            "line 1 looks like names of columns, `sor`, `szék`, and none of them is known; call them row,seat,category,section, …"
        ],
    );
    check(
        "row,chairs\nA,1\n",
        expect!["line 1 names columns (`row`, `chairs`), and none of them is the seat; call it `seat`"],
    );
    check(
        "row,seat,kategory\nA,1,x\n",
        expect![[
            r#"line 1, column 3: there is no column "kategory"; there may be row,seat,category,section,accessible,x,y,price, and a name that begins with # is left out"#
        ]],
    );
    check("row,seat,row\nA,1,A\n", expect!["line 1, column 3: the row is there twice, as `row` and `row`"]);
    check(
        "Sitz,Notizen\n1,frei\n",
        expect!["line 1 names columns (`Sitz`, `Notizen`), and none of them is the row; call it `row`"],
    );
}

#[test]
fn the_separator_is_found_said_or_asked_for() {
    check(
        "A;1;12,50\n",
        expect![
            "line 1 can be read in 2 ways: `A;1;12` `50` with commas, and `A` `1` `12,50` with semicolons; begin the file with the names of the columns, as in `row;seat;category`, or with a line `sep=;`"
        ],
    );
    check(
        "Reihe;Platz;Preis\nA;1;12,50\n",
        expect![[r#"
        A: 1(12-50)
        category 12-50 is 12,50 (de)
        note: row ← Reihe, seat ← Platz, price ← Preis; semicolons between the columns, UTF-8
        note: ids for each category: 12,50 is 12-50
        prices: 12,50 12,50
    "#]],
    );
    check(
        "A\t1\tstalls\nA\t2\tstalls\n",
        expect![[r#"
        A: 1(stalls) 2
        note: no names of columns, so row ← column 1, seat ← column 2, category ← column 3; tabs between the columns, UTF-8
    "#]],
    );
    check(
        "A;1\nA;2\n",
        expect![[r#"
        A: 1(standard) 2
        note: no names of columns, so row ← column 1, seat ← column 2; semicolons between the columns, UTF-8
    "#]],
    );
    check(
        "sep=;\nrow;seat\nA;1\n",
        expect![[r#"
        A: 1(standard)
        note: row ← row, seat ← seat; semicolons between the columns, UTF-8
    "#]],
    );
    check(
        "\"sep=,\"\r\nA,1\r\nA,2\r\n",
        expect![[r#"
        A: 1(standard) 2
        note: no names of columns, so row ← column 1, seat ← column 2; commas between the columns, UTF-8
    "#]],
    );
    check(
        "sep=\nA,1\n",
        expect![[r#"line 1: "sep=" names no separator; write `sep=;`, `sep=,`, or leave the line out"#]],
    );
    check(
        "row,seat\nA;1\n",
        expect!["line 2 has 1 columns where 2 are needed; are there commas between them, as in the first line?"],
    );
    check(
        "A1\nA2\n",
        expect![
            "line 1 has one column only; a line is a seat, as in `row,seat,category`, with commas, semicolons or tabs between them, the same in all lines"
        ],
    );
    check(
        "row,seat,price\nA,1,12,50\n",
        expect![
            "line 2, column 4: there are 4 columns, the first line names 3 (an amount with a decimal comma needs quotes)"
        ],
    );
    check(
        "row;seat;category\n\"A\";\"1\";\"a;b\"\n",
        expect![[r#"
        A: 1(a-b)
        category a-b is a;b (en)
        note: row ← row, seat ← seat, category ← category; semicolons between the columns, UTF-8
        note: ids for each category: a;b is a-b
    "#]],
    );
}

#[test]
fn what_spreadsheets_add_is_left_out() {
    check(
        "row,seat,,\nA,1,,\n,,,\nA,2,,\n\n",
        expect![[r#"
        A: 1(standard) 2
        note: row ← row, seat ← seat; commas between the columns, UTF-8
    "#]],
    );
    check(
        "row,seat,,\nA,1,,x\n",
        expect![
            "line 2, column 3: there are 4 columns, the first line names 2 (an amount with a decimal comma needs quotes)"
        ],
    );
    check(
        "row,seat,#remark\nA,1,broken\n",
        expect![[r#"
        A: 1(standard)
        note: row ← row, seat ← seat; commas between the columns, UTF-8
    "#]],
    );
    check(
        "\u{feff}row,seat\r\nA,1\r\n",
        expect![[r#"
        A: 1(standard)
        note: row ← row, seat ← seat; commas between the columns, UTF-8
    "#]],
    );
    check(
        "row,seat\rA,1\rA,2\r",
        expect![[r#"
        A: 1(standard) 2
        note: row ← row, seat ← seat; commas between the columns, UTF-8
    "#]],
    );
    check(
        " row , seat \n A\u{a0}, 1 \n",
        expect![[r#"
        A: 1(standard)
        note: row ← row, seat ← seat; commas between the columns, UTF-8
    "#]],
    );
}

#[test]
fn quotes_that_do_not_match_are_refused() {
    check("row,seat,category\nA,\"1,a\nA,2,a\nA,3,a\n", expect!["line 2 has a quote that is never closed"]);
    check(
        "row,seat,category\nA,\"1\"x,a\n",
        expect![[r#"line 2: 'x' stands behind a closing quote; write quotes within quotes twice, as in `"12"""`"#]],
    );
    check(
        "row,seat\n\"A \"\"1\"\"\",1\n",
        expect![[r#"
        A "1": 1(standard)
        note: row ← row, seat ← seat; commas between the columns, UTF-8
    "#]],
    );
}

#[test]
fn any_usual_encoding_is_read() {
    let text = "Reihe;Platz;Bereich\nA;1;Süd – 1. Rang €\n";
    let expected = r#"
        sud-1.-rang/A: 1(standard)
        section sud-1.-rang is Süd – 1. Rang € (de)
        note: row ← Reihe, seat ← Platz, section ← Bereich; semicolons between the columns, UTF-16
        note: ids for each section: Süd – 1. Rang € is sud-1.-rang
    "#;
    for bytes in
        [utf_16(text, true, true), utf_16(text, false, true), utf_16(text, true, false), utf_16(text, false, false)]
    {
        let told = told(&read_seats(&bytes).expect("a hall").seating);
        let lines = |text: &str| text.trim().lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>();
        assert_eq!(lines(&told), lines(expected));
    }
    check(
        b"Reihe;Platz;Bereich\nA;1;S\xfcd \x96 1. Rang \x80\n",
        expect![[r#"
        sud-1.-rang/A: 1(standard)
        section sud-1.-rang is Süd – 1. Rang € (de)
        note: row ← Reihe, seat ← Platz, section ← Bereich; semicolons between the columns, Windows-1252
        note: ids for each section: Süd – 1. Rang € is sud-1.-rang
    "#]],
    );
    check(
        b"Rz\xb9d;Miejsce\nA;1\n",
        expect![[r#"
        A: 1(standard)
        note: row ← Rząd, seat ← Miejsce; semicolons between the columns, Windows-1250
    "#]],
    );
    check(
        b"row;seat;section\nA;1;S\xc3\xbcd\nA;2;S\xfcd\n",
        expect!["line 3 is not UTF-8, and others are; save the file again, as UTF-8"],
    );
    check(b"row;seat\nA;\x81\n", expect!["line 2 is neither UTF-8 nor Windows-1252; save the file again, as UTF-8"]);
    check(
        "row;seat\nA\u{fffd};1\n",
        expect!["line 2 has the character �, which stands for one that was lost; save the file again, as UTF-8"],
    );
    check(
        b"PK\x03\x04rest",
        expect![
            "this file is a workbook (.xlsx, .ods or .numbers) and no text: open it and save the sheet as CSV, in UTF-8"
        ],
    );
    check(b"row,seat\nA,1\n\0", expect!["this file has zero bytes, so it is no text; save the sheet as CSV, in UTF-8"]);
    check([0xff, 0xfe, 0x00, 0xd8], expect!["this file is UTF-16 with a letter that is cut; save it as UTF-8"]);
}

#[test]
fn rows_and_seats_in_text_order_are_sorted_by_number() {
    let seats = |row: &str, seats: &[u32]| seats.iter().map(|seat| format!("{row},{seat}\n")).collect::<String>();
    let text = format!("row,seat\n{}{}{}", seats("1", &[1, 10, 11, 2, 3]), seats("10", &[1]), seats("2", &[1]));
    check(
        text,
        expect![[r#"
        1: 1(standard) 2 3 10 11
        2: 1(standard)
        10: 1(standard)
        note: row ← row, seat ← seat; commas between the columns, UTF-8
        note: the rows (1, 10, 2) came in text order and are sorted by number
        note: the seats of row 1 (1, 10, 11, 2, …) came in text order and are sorted by number
    "#]],
    );
    // As houses number: downward, odd numbers on one side, from the middle, with a gap.
    check(
        "row,seat\nA,3\nA,2\nA,1\n",
        expect![[r#"
        A: 3(standard) 2 1
        note: row ← row, seat ← seat; commas between the columns, UTF-8
    "#]],
    );
    check(
        "row,seat\nA,5\nA,3\nA,1\nA,2\nA,4\n",
        expect![[r#"
        A: 5(standard) 3 1 2 4
        note: row ← row, seat ← seat; commas between the columns, UTF-8
    "#]],
    );
    check(
        "row,seat\nA,2\nA,1\nA,\nA,3\nA,4\n",
        expect![[r#"
        A: 2(standard) 1 _ 3 4
        note: row ← row, seat ← seat; commas between the columns, UTF-8
    "#]],
    );
    // Places outrank numbers, and text order that they do not show is sorted.
    check(
        "row,seat,x,y\nA,1,0,0\nA,10,100,0\nA,2,200,0\n",
        expect![[r#"
        A: 1(standard) 10 2  at 0,0 to 200,0
        note: row ← row, seat ← seat, x ← x, y ← y; commas between the columns, UTF-8
    "#]],
    );
    check(
        "row,seat,x,y\nA,1,0,0\nA,10,200,0\nA,2,100,0\n",
        expect![[r#"
        A: 1(standard) 2 10  at 0,0 to 200,0
        note: row ← row, seat ← seat, x ← x, y ← y; commas between the columns, UTF-8
        note: the seats of row A (1, 10, 2) came in text order and are sorted by number
    "#]],
    );
    // No house does.
    check(
        "row,seat\nA,3\nA,1\nA,4\nA,2\n",
        expect![[r#"
        A: 3(standard) 1 4 2
        note: row ← row, seat ← seat; commas between the columns, UTF-8
        warning: the seats of row A (3, 1, 4, 2) are in an order that no house has; sort the file
    "#]],
    );
    check(
        "row,seat\nB,1\nA,1\nC,1\n",
        expect![[r#"
        B: 1(standard)
        A: 1(standard)
        C: 1(standard)
        note: row ← row, seat ← seat; commas between the columns, UTF-8
        warning: the rows (B, A, C) are in an order that no house has; rows are told from the stage backwards
    "#]],
    );
    check(
        "row,seat\nA,1\nA,10\nA,\nA,2\n",
        expect![[r#"
        A: 1(standard) 10 _ 2
        note: row ← row, seat ← seat; commas between the columns, UTF-8
        warning: the seats of row A (1, 10, 2) are in text order, and the places of the gaps are not known; sort the file by number
    "#]],
    );
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
    check(
        table(&["12,50", "3.75"]),
        expect!["12,50 in line 2 and 3.75 in line 3 have different decimal marks; write all numbers alike"],
    );
    check(table(&["free"]), expect![[r#"line 2, column 4 (price): "free" is no price; write it like 12.50 or 12,50"#]]);
    check(
        "row;seat;category;price\nA;1;a;10,5\nA;2;a;10,50\n",
        expect![[r#"
        A: 1(a) 2
        note: row ← row, seat ← seat, category ← category, price ← price; semicolons between the columns, UTF-8
        prices: a 10,5
    "#]],
    );
    check(
        "row;seat;category;price\nA;1;a;10\nA;2;a;12\n",
        expect!["line 3, column 4 (price): category a costs 10 in line 2 and 12 here; give it one price"],
    );
    check(
        "row;seat;price\nA;1;12,50\nA;2;7\n",
        expect![[r#"
        A: 1(12-50) 2(7)
        category 12-50 is 12,50 (en)
        note: row ← row, seat ← seat, price ← price; semicolons between the columns, UTF-8
        note: ids for each category: 12,50 is 12-50
        prices: 12,50 12,50, 7 7
    "#]],
    );
}

#[test]
fn mistakes_are_named_with_line_and_column() {
    check("", expect!["there are no seats; a line a seat: row,seat,category"]);
    check("row,seat,category\n", expect!["there are no seats; a line a seat: row,seat,category"]);
    check("row,seat\nA,1\n,2\n", expect!["line 3, column 1 (row): a seat needs a row"]);
    check("row,seat\nA,1\nB,1\nA,1\n", expect!["line 4, column 2 (seat): seat 1 of this row is in line 2 already"]);
    check("A,1,standard,,maybe\n", expect!["line 1, column 5 (accessible): write yes or no, or leave it empty"]);
    check("A,1,standard,,,1\n", expect!["line 1, column 7 (y): a seat has both x and y, or neither"]);
    check(
        "A,1,standard,,,1,zwei\n",
        expect!["line 1, column 7 (y): a number from -100000000 to 100000000, in hundredths of a seat's width"],
    );
    check(
        "A,1,standard,,,1,99999999999\n",
        expect!["line 1, column 7 (y): a number from -100000000 to 100000000, in hundredths of a seat's width"],
    );
    check(
        "A,1,standard,,,1,2,3,4\n",
        expect![
            "line 1, column 9: there are 9 columns, at most 8 have a meaning (an amount with a decimal comma needs quotes)"
        ],
    );
    check(
        format!("A,{}\n", "9".repeat(40)),
        expect!["line 1, column 2 (seat): a label has at most 32 bytes and no control characters"],
    );
    check(
        "row,seat\nA,\"1\n2\"\n",
        expect!["line 2, column 2 (seat): a label has at most 32 bytes and no control characters"],
    );
}

#[test]
fn names_become_ids_and_stay_names() {
    check(
        "Reihe;Platz;Bereich;Kategorie\nA;1;Süd;1. Rang\nA;1;東上B;1. Rang\nA;1;Sud;vip\n",
        expect![[r#"
        sud/A: 1(1.-rang)
        b/A: 1(1.-rang)
        Sud/A: 1(vip)
        section b is 東上B (de)
        section sud is Süd (de)
        category 1.-rang is 1. Rang (de)
        note: row ← Reihe, seat ← Platz, section ← Bereich, category ← Kategorie; semicolons between the columns, UTF-8
        note: ids for each section: Süd is sud, 東上B is b
        note: ids for each category: 1. Rang is 1.-rang
    "#]],
    );
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
    expect![[r#"
        4711 "Programmheft" 250 EUR × 1000
        b-7 "Plakat groß" 123400 EUR × 5
        note: id ← Artikelnummer, name ← Bezeichnung, price ← Preis, stock ← Bestand; semicolons between the columns, UTF-8, ',' before the decimals
    "#]].assert_eq(&products("Artikelnummer;Bezeichnung;Preis;Bestand\n4711;Programmheft;2,50;1.000\nB 7;Plakat groß;1.234,00;5\n"));
    expect![[r#"
        cup "Cup" 1234000 KWD × 5
        mug "Mug" 150 EUR × 7
        note: name ← name, price ← price, stock ← stock, currency ← currency; commas between the columns, UTF-8, ',' before the decimals
    "#]].assert_eq(&products("name,price,stock,currency\nCup,1.234,5,KWD\nMug,\"1,50\",7,\n"));
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
    expect![[r#"
        line 2, column 2 (price): 1.234 may be 1234 or a thousandth of it, and no other number of the file shows its decimal mark; write 1234, or two digits behind the mark
        line 2, column 3 (stock): "1.000" is no number of units
        line 3, column 4 (id): product cup is in line 2 already
        line 2, column 2 (price): 1.555 has more digits than EUR has
        line 2, column 4 (currency): EURO is no currency
        line 2, column 4: there are 4 columns, the first line names 3 (an amount with a decimal comma needs quotes)
        line 1 names columns (`name`, `price`), and none of them is the stock; call it `stock`
        line 2, column 4 (id): "東" makes no id; add a column `id`
    "#]].assert_eq(&refused);
}
