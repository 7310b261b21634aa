//! Documents as lines of JSON, or as the rows of a CSV file.

use std::io::{self, Write};

use serde_json::Value;

/// The names of a document's fields, and of those of each of its lines.
#[derive(Clone, Copy, Debug)]
pub struct Columns {
    pub head: &'static [&'static str],
    /// The name of the list, and the fields of its lines. `None` if it has no list.
    pub lines: Option<(&'static str, &'static [&'static str])>,
}

/// The values of a document, in the order of its columns.
#[derive(Clone, Debug)]
pub struct Document {
    pub head: Vec<Value>,
    pub lines: Vec<Vec<Value>>,
}

/// Where documents are written to.
pub struct ExportWriter<W: Write> {
    out: Out<W>,
    columns: Columns,
}

enum Out<W: Write> {
    Json(W),
    Csv(Box<csv::Writer<W>>),
}

impl<W: Write> ExportWriter<W> {
    /// Writes the names of the columns if it is CSV.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn new(out: W, is_csv: bool, columns: Columns) -> io::Result<ExportWriter<W>> {
        let out = match is_csv {
            false => Out::Json(out),
            true => {
                let mut out = csv::Writer::from_writer(out);
                let lines = columns.lines.map_or(&[][..], |(_, names)| names);
                out.write_record(columns.head.iter().chain(lines))?;
                Out::Csv(Box::new(out))
            }
        };
        Ok(ExportWriter { out, columns })
    }

    /// Writes a document: one line of JSON, or one row of CSV for each of its lines.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&mut self, document: &Document) -> io::Result<()> {
        let Document { head, lines } = document;
        match &mut self.out {
            Out::Json(out) => {
                let mut text = object(self.columns.head, head);
                if let Some((name, names)) = self.columns.lines {
                    let lines: Vec<String> = lines.iter().map(|line| object(names, line)).collect();
                    text.pop();
                    text.push_str(&format!(",\"{name}\":[{}]}}", lines.join(",")));
                }
                writeln!(out, "{text}")
            }
            Out::Csv(out) => {
                let none = [Vec::new()];
                let lines = if self.columns.lines.is_some() { lines } else { &none[..] };
                for line in lines {
                    out.write_record(head.iter().chain(line).map(cell))?;
                }
                Ok(())
            }
        }
    }

    /// Writes everything out.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn end(self) -> io::Result<()> {
        match self.out {
            Out::Json(mut out) => out.flush(),
            Out::Csv(mut out) => out.flush(),
        }
    }
}

/// A JSON object with its fields in this order.
fn object(names: &[&str], values: &[Value]) -> String {
    let fields: Vec<String> = names.iter().zip(values).map(|(name, value)| format!("\"{name}\":{value}")).collect();
    format!("{{{}}}", fields.join(","))
}

/// A value as text. A list has commas.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => harmless(text),
        Value::Array(values) => values.iter().map(cell).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

/// A text that no spreadsheet takes for a formula. A buyer may write `=HYPERLINK(…)` as a note, and the apostrophe makes it a text
/// (OWASP, CSV Injection).
fn harmless(text: &str) -> String {
    match text.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        true => format!("'{text}"),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const COLUMNS: Columns = Columns { head: &["order", "note"], lines: Some(("lines", &["line", "seats"])) };

    fn written(is_csv: bool) -> String {
        let mut out = Vec::new();
        let mut writer = ExportWriter::new(&mut out, is_csv, COLUMNS).expect("a writer");
        let lines = vec![vec![json!(1), json!(["A1", "A2"])], vec![json!(2), Value::Null]];
        writer.write(&Document { head: vec![json!("o1"), json!("=1+1, \"x\"\nand more")], lines }).expect("written");
        writer.end().expect("written");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn a_document_is_a_line_of_json() {
        let text = written(false);
        assert_eq!(
            text,
            "{\"order\":\"o1\",\"note\":\"=1+1, \\\"x\\\"\\nand more\",\"lines\":[{\"line\":1,\"seats\":[\"A1\",\"A2\"]},\
             {\"line\":2,\"seats\":null}]}\n"
        );
    }

    #[test]
    fn each_line_of_a_document_is_a_row_and_no_cell_is_a_formula() {
        assert_eq!(
            written(true),
            "order,note,line,seats\no1,\"'=1+1, \"\"x\"\"\nand more\",1,\"A1, A2\"\no1,\"'=1+1, \"\"x\"\"\nand more\",2,\n"
        );
    }
}
