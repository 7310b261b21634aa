//! Refusals, rejections and failures: one declaration for each, at its variant.
//!
//! ```text
//! #[derive(Rows, Stored)]
//! #[rows(Refusal)]                                  // the kind
//! enum Refusal {
//!     /// The cause, a paragraph.
//!     ///
//!     /// What to do, a paragraph.
//!     #[row(205, "not_enough_places", http = 409, buyer = "Only {free} places are left. | No places are left.")]
//!     #[error("{free} places are free in {area}")]  // the message
//!     #[sample { area: id("yard"), free: 3 }]       // for tests; any number of them
//!     NotEnoughPlaces { area: Id, free: u32 },
//! }
//! ```
//!
//! A named field is in the body under its own name, unless it is `#[hidden]`. A field of a tuple is in the body only under the name
//! in `#[shown(name)]`. `#[shown(seats: Vec<Seat>, states: Vec<SeatState>)]` shows two parts of a field, with the types in which
//! clients read them. The doc comment of a field describes it in the client's type and in the OpenAPI document.
//!
//! A variant with `#[row_of(function)]` has no row of its own. The function gets its fields and returns the row.
//! `#[row_of(function, stored = 0)]` says under which number it is stored.

use std::collections::BTreeMap;

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote};
use syn::{
    Attribute, Data, DeriveInput, Error, Expr, Field, Fields, Lit, LitInt, LitStr, Meta, Path, Result, Token, Type,
    Variant, parse::ParseStream, parse2,
};

/// A declared enum.
struct RowTable {
    name: Ident,
    kind: Ident,
    variants: Vec<Answer>,
}

/// A variant.
struct Answer {
    name: Ident,
    /// A pattern that binds all fields to `fields`.
    pattern: TokenStream,
    /// The names of the bound fields.
    fields: Vec<Ident>,
    types: Vec<Type>,
    /// The named fields, in order. Empty for a tuple.
    named: Vec<Ident>,
    is_unit: bool,
    shown: Vec<Shown>,
    /// The values of `#[sample]`.
    samples: Vec<TokenStream>,
    row: RowOf,
}

/// Where the row of a variant is.
enum RowOf {
    Own(Box<Row>),
    Other { function: Path, stored: Option<LitInt> },
}

/// The options of `#[row(…)]` and what stands beside it.
struct Row {
    code: LitInt,
    name: LitStr,
    http: LitInt,
    buyer: Option<LitStr>,
    /// It says how a payment ended.
    is_outcome: bool,
    /// It may have happened all the same.
    in_doubt: bool,
    retry_after_ms: Option<LitInt>,
    message: LitStr,
    cause: String,
    advice: String,
}

/// A field that has a place in the body.
struct Shown {
    bound: Ident,
    parts: Vec<Part>,
}

/// An entry of the body.
struct Part {
    name: Ident,
    read_as: Type,
    words: Option<String>,
}

pub(crate) fn rows(input: TokenStream) -> Result<TokenStream> {
    let table = RowTable::read(parse2(input)?)?;
    let RowTable { name, kind, variants } = &table;
    let own = || variants.iter().filter_map(|variant| variant.own().map(|row| (variant, row)));
    let rows = own().map(|(variant, row)| row.value(kind, &variant.part_names()));
    let row_of = variants.iter().map(|variant| {
        let Answer { name, pattern, fields, row, .. } = variant;
        match row {
            RowOf::Own(_) => {
                let index = own().position(|(other, _)| other.name == *name);
                quote!(Self::#name { .. } => &Self::ROWS[#index],)
            }
            RowOf::Other { function, .. } => quote!(Self::#name #pattern => #function(#(#fields),*),),
        }
    });
    let details = variants.iter().map(|variant| {
        let Answer { name, shown, .. } = variant;
        let (pattern, fields) = (&variant.pattern, &variant.fields);
        let hidden = fields.iter().filter(|field| shown.iter().all(|shown| shown.bound != **field));
        let parts = shown.iter().map(|Shown { bound, parts }| {
            let names = parts.iter().map(|part| part.name.to_string());
            quote!(crate::refusal::show([#(#names),*], crate::refusal::Detail::parts(#bound), &mut all);)
        });
        quote!(Self::#name #pattern => { let _ = (#(#hidden,)*); #(#parts)* })
    });
    let samples = variants.iter().flat_map(|variant| {
        let name = &variant.name;
        variant.samples.iter().map(move |sample| quote!(Self::#name #sample))
    });
    let all = variants.iter().all(|variant| variant.is_unit).then(|| {
        let (count, names) = (variants.len(), variants.iter().map(|variant| &variant.name));
        quote! {
            /// Every kind, as declared.
            pub const ALL: [Self; #count] = [#(Self::#names),*];
        }
    });
    let reader = table.reader()?;
    Ok(quote! {
        impl #name {
            #all

            /// The declared rows, in any order.
            pub const ROWS: &'static [crate::refusal::Row] = &[#(#rows),*];

            /// What is declared about it.
            pub fn row(&self) -> &'static crate::refusal::Row {
                match self { #(#row_of)* }
            }

            /// The number, which never changes.
            pub fn code(&self) -> u16 {
                self.row().code
            }

            /// The name, which never changes.
            pub fn name(&self) -> &'static str {
                self.row().name
            }

            /// The fields of the body with their names, in order.
            pub fn details(&self) -> alloc::vec::Vec<(&'static str, crate::refusal::Shown<'_>)> {
                let mut all = alloc::vec::Vec::new();
                match self { #(#details)* }
                all
            }

            /// Samples of every row, for tests and documents.
            pub fn samples() -> alloc::vec::Vec<Self> {
                alloc::vec![#(#samples),*]
            }
        }

        #reader
    })
}

pub(crate) fn stored(input: TokenStream) -> Result<TokenStream> {
    let RowTable { name, variants, .. } = RowTable::read(parse2(input)?)?;
    let stored = variants.iter().map(Answer::stored_code).collect::<Result<Vec<LitInt>>>()?;
    let write = variants.iter().zip(&stored).map(|(variant, code)| {
        let Answer { name, pattern, fields, .. } = variant;
        let mut present = quote!(0);
        for (place, field) in fields.iter().enumerate() {
            let count = place + 1;
            present = quote!(if !Encode::is_absent(#field) { #count } else { #present });
        }
        let writes = fields
            .iter()
            .enumerate()
            .map(|(place, field)| quote!(if present > #place { Encode::encode(#field, out); }));
        quote! {
            Self::#name #pattern => {
                let present: usize = #present;
                out.variant(#code, present);
                #(#writes)*
            }
        }
    });
    let read = variants.iter().zip(&stored).map(|(variant, code)| {
        let Answer { name, fields, named, .. } = variant;
        let values = fields.iter().map(|_| quote!(fields.next(from)?));
        let value = match (named.is_empty(), fields.is_empty()) {
            (_, true) => quote!(Self::#name),
            (true, false) => quote!(Self::#name(#(#values),*)),
            (false, false) => quote!(Self::#name { #(#named: #values),* }),
        };
        quote!(#code => #value,)
    });
    let shapes = variants.iter().zip(&stored).map(|(variant, code)| {
        let Answer { name, fields, types, .. } = variant;
        let name = name.to_string();
        let fields = fields.iter().zip(types).enumerate().map(|(number, (name, ty))| {
            let (number, name) = (number as u32, name.to_string());
            quote!((#number, #name, <#ty as crate::stored::Decode>::shape(schema)))
        });
        quote!((#code, #name, alloc::vec![#(#fields),*]))
    });
    let text = name.to_string();
    Ok(quote! {
        impl #name {
            /// The variants with their codes and fields, for the list of stored types.
            fn stored_shape(schema: &mut crate::stored::Schema) -> crate::stored::Shape {
                let path = ::core::concat!(::core::module_path!(), "::", #text);
                schema.define::<Self>(#text, path, |schema| {
                    crate::stored::Definition::Enum(crate::stored::variants([#(#shapes),*]))
                })
            }
        }

        impl crate::stored::Encode for #name {
            /// Writes the code, then the fields.
            fn encode(&self, out: &mut crate::stored::Writer) {
                use crate::stored::Encode;
                match self { #(#write)* }
            }
        }

        impl #name {
            /// Reads the fields that follow a code.
            fn read_stored(
                code: u32,
                mut fields: crate::stored::FieldReader,
                from: &mut crate::stored::Reader<'_>,
            ) -> Result<Self, crate::stored::Error> {
                let value = match code {
                    #(#read)*
                    _ => return Err(crate::stored::unknown_variant(code)),
                };
                fields.end().map(|()| value)
            }
        }
    })
}

impl RowTable {
    fn read(input: DeriveInput) -> Result<RowTable> {
        let Data::Enum(data) = &input.data else {
            return Err(Error::new_spanned(&input.ident, "rows are the variants of an enum"));
        };
        let kind = input.attrs.iter().find(|attribute| attribute.path().is_ident("rows"));
        let kind = kind.ok_or_else(|| {
            Error::new_spanned(
                &input.ident,
                "`#[rows(Refusal)]`, `#[rows(Rejection)]` or `#[rows(Failure)]` says the kind",
            )
        })?;
        let variants = data.variants.iter().map(Answer::read).collect::<Result<Vec<Answer>>>()?;
        let table = RowTable { name: input.ident, kind: kind.parse_args()?, variants };
        table.check_unique()?;
        Ok(table)
    }

    /// Checks that no code and no name has two rows.
    fn check_unique(&self) -> Result<()> {
        let (mut codes, mut names) = (BTreeMap::new(), BTreeMap::new());
        for variant in &self.variants {
            let Some(row) = variant.own() else { continue };
            if let Some(other) = codes.insert(row.code.base10_parse::<u16>()?, &variant.name) {
                return Err(Error::new_spanned(&row.code, format!("the code {} is that of `{other}`", row.code)));
            }
            if let Some(other) = names.insert(row.name.value(), &variant.name) {
                return Err(Error::new_spanned(&row.name, format!("the name is that of `{other}`")));
            }
        }
        Ok(())
    }

    /// `refusal_fields!(with)`, which gives all fields of all bodies to a macro: the doc comment, the name, and the type in which a
    /// client reads it. The client's type is made of them.
    fn reader(&self) -> Result<Option<TokenStream>> {
        if self.kind != "Refusal" {
            return Ok(None);
        }
        /// A field: its type, and the names of the rows that have it, by their words.
        struct Read<'a> {
            part: &'a Part,
            of: Vec<(&'a str, Vec<String>)>,
        }
        let mut fields: Vec<Read<'_>> = Vec::new();
        for variant in &self.variants {
            let Some(row) = variant.own() else { continue };
            for part in variant.shown.iter().flat_map(|shown| &shown.parts) {
                let field = match fields.iter_mut().find(|field| field.part.name == part.name) {
                    Some(field) => field,
                    None => {
                        fields.push(Read { part, of: Vec::new() });
                        fields.last_mut().expect("it was pushed")
                    }
                };
                let (first, own) = (&field.part.read_as, &part.read_as);
                if quote!(#first).to_string() != quote!(#own).to_string() {
                    let message = format!("another refusal has the field `{}` with another type", part.name);
                    return Err(Error::new_spanned(own, message));
                }
                let Some(words) = &part.words else { continue };
                match field.of.iter_mut().find(|(other, _)| other == words) {
                    Some((_, names)) => names.push(format!("`{}`", row.name.value())),
                    None => field.of.push((words, vec![format!("`{}`", row.name.value())])),
                }
            }
        }
        let fields = fields.iter().map(|Read { part: Part { name, read_as, .. }, of }| {
            let words = of
                .iter()
                .map(|(words, names)| format!("{}: {}", names.join(", "), uncapitalized(words)))
                .collect::<Vec<_>>()
                .join(" ");
            let words = (!words.is_empty()).then(|| quote!(#[doc = #words]));
            let read_as = if is_of(read_as, &["Vec", "Option"]) { quote!(#read_as) } else { quote!(Option<#read_as>) };
            quote!(#words #name: #read_as,)
        });
        Ok(Some(quote! {
            /// Gives the fields of all bodies to a macro, as `name: Type,` with a doc comment.
            #[doc(hidden)]
            #[macro_export]
            macro_rules! refusal_fields {
                ($with:ident) => { $with! { #(#fields)* } };
            }
        }))
    }
}

impl Answer {
    fn read(variant: &Variant) -> Result<Answer> {
        let mut shown = Vec::new();
        let mut bound = Vec::new();
        for (index, field) in variant.fields.iter().enumerate() {
            let name = field.ident.clone().unwrap_or_else(|| format_ident!("field_{index}"));
            let parts = parts(field)?;
            if !parts.is_empty() {
                shown.push(Shown { bound: name.clone(), parts });
            }
            bound.push(name);
        }
        let (pattern, named) = match &variant.fields {
            Fields::Named(_) => (quote!({ #(#bound),* }), bound.clone()),
            Fields::Unnamed(_) => (quote!((#(#bound),*)), Vec::new()),
            Fields::Unit => (TokenStream::new(), Vec::new()),
        };
        let row = RowOf::read(variant)?;
        let mut samples = samples(&variant.attrs)?;
        let is_unit = matches!(variant.fields, Fields::Unit);
        if let RowOf::Own(row) = &row {
            match (samples.is_empty(), is_unit) {
                (true, true) => samples.push(TokenStream::new()),
                (true, false) => {
                    let message = format!(
                        "`{}` needs a sample: `#[sample {{ field: value }}]` or `#[sample(value)]`",
                        variant.ident
                    );
                    return Err(Error::new_spanned(&variant.ident, message));
                }
                (false, _) => {}
            }
            if let Some(buyer) = &row.buyer {
                let names: Vec<String> =
                    shown.iter().flat_map(|shown| &shown.parts).map(|part| part.name.to_string()).collect();
                check_template(buyer, &names)?;
            }
        }
        let types = variant.fields.iter().map(|field| field.ty.clone()).collect();
        Ok(Answer { name: variant.ident.clone(), pattern, fields: bound, types, named, is_unit, shown, samples, row })
    }

    fn own(&self) -> Option<&Row> {
        match &self.row {
            RowOf::Own(row) => Some(row),
            RowOf::Other { .. } => None,
        }
    }

    fn part_names(&self) -> Vec<String> {
        self.shown.iter().flat_map(|shown| &shown.parts).map(|part| part.name.to_string()).collect()
    }

    fn stored_code(&self) -> Result<LitInt> {
        let code = match &self.row {
            RowOf::Own(row) => Some(&row.code),
            RowOf::Other { stored, .. } => stored.as_ref(),
        };
        let code = code.ok_or_else(|| {
            Error::new_spanned(
                &self.name,
                format!("`{}` is stored under no number: `#[row_of(…, stored = 0)]`", self.name),
            )
        })?;
        Ok(LitInt::new(&format!("{}u32", code.base10_digits()), code.span()))
    }
}

impl RowOf {
    fn read(variant: &Variant) -> Result<RowOf> {
        let find = |name: &str| variant.attrs.iter().find(|attribute| attribute.path().is_ident(name));
        match (find("row"), find("row_of")) {
            (Some(row), None) => Row::read(variant, row).map(|row| RowOf::Own(Box::new(row))),
            (None, Some(other)) => other.parse_args_with(|input: ParseStream<'_>| {
                let function = input.parse()?;
                let stored = match input.parse::<Option<Token![,]>>()? {
                    Some(_) => {
                        let option: Ident = input.parse()?;
                        if option != "stored" {
                            return Err(Error::new_spanned(&option, "only `stored` is told beside the function"));
                        }
                        input.parse::<Token![=]>()?;
                        Some(input.parse()?)
                    }
                    None => None,
                };
                Ok(RowOf::Other { function, stored })
            }),
            (Some(_), Some(other)) => Err(Error::new_spanned(other, "a variant has a row or that of another")),
            (None, None) => {
                let message = format!("`{}` has no row: `#[row(code, \"name\", http = status)]`", variant.ident);
                Err(Error::new_spanned(&variant.ident, message))
            }
        }
    }
}

impl Row {
    fn read(variant: &Variant, attribute: &Attribute) -> Result<Row> {
        let (cause, advice) = paragraphs(variant)?;
        let message = message(variant)?;
        attribute.parse_args_with(|input: ParseStream<'_>| {
            let code: LitInt = input.parse()?;
            if !(100..1_000).contains(&code.base10_parse::<u16>()?) {
                return Err(Error::new_spanned(&code, "a code has three digits"));
            }
            input.parse::<Token![,]>()?;
            let name: LitStr = input.parse()?;
            let mut http = None;
            let mut row = Row {
                http: LitInt::new("0", Span::call_site()),
                buyer: None,
                is_outcome: false,
                in_doubt: false,
                retry_after_ms: None,
                code,
                name,
                message,
                cause,
                advice,
            };
            while input.parse::<Option<Token![,]>>()?.is_some() && !input.is_empty() {
                let option: Ident = input.parse()?;
                match option.to_string().as_str() {
                    "outcome" => row.is_outcome = true,
                    "in_doubt" => row.in_doubt = true,
                    other => {
                        let known = matches!(other, "http" | "buyer" | "retry_after_ms");
                        if !known {
                            let message = "a row has `http`, `buyer`, `outcome`, `in_doubt` and `retry_after_ms`";
                            return Err(Error::new_spanned(&option, message));
                        }
                        input.parse::<Token![=]>()?;
                        match other {
                            "http" => http = Some(input.parse()?),
                            "buyer" => row.buyer = Some(input.parse()?),
                            _ => row.retry_after_ms = Some(input.parse()?),
                        }
                    }
                }
            }
            let missing = || Error::new_spanned(&row.name, format!("`{}` has no `http = status`", row.name.value()));
            Ok(Row { http: http.ok_or_else(missing)?, ..row })
        })
    }

    /// The value of the row.
    fn value(&self, kind: &Ident, fields: &[String]) -> TokenStream {
        let Row { code, name, http, buyer, is_outcome, in_doubt, retry_after_ms, message, cause, advice } = self;
        let option = |value: Option<TokenStream>| value.map_or_else(|| quote!(None), |value| quote!(Some(#value)));
        let buyer = option(buyer.as_ref().map(|words| quote!(#words)));
        let retry_after_ms = option(retry_after_ms.as_ref().map(|millis| quote!(#millis)));
        quote! {
            crate::refusal::Row {
                kind: crate::refusal::Kind::#kind,
                code: #code,
                name: #name,
                fields: &[#(#fields),*],
                message: #message,
                cause: #cause,
                advice: #advice,
                http: #http,
                buyer: #buyer,
                is_outcome: #is_outcome,
                in_doubt: #in_doubt,
                retry_after_ms: #retry_after_ms,
            }
        }
    }
}

/// The two paragraphs of a variant's doc comment.
fn paragraphs(variant: &Variant) -> Result<(String, String)> {
    let mut paragraphs = vec![String::new()];
    for line in doc_lines(&variant.attrs) {
        match (line.trim(), paragraphs.last_mut()) {
            ("", _) => paragraphs.push(String::new()),
            (words, Some(paragraph)) => {
                paragraph.push_str(if paragraph.is_empty() { "" } else { " " });
                paragraph.push_str(words);
            }
            (_, None) => {}
        }
    }
    match <[String; 2]>::try_from(paragraphs) {
        Ok([cause, advice]) if !cause.is_empty() && !advice.is_empty() => Ok((cause, advice)),
        _ => {
            let message =
                format!("the doc comment of `{}` has two paragraphs: the cause, and what a client does", variant.ident);
            Err(Error::new_spanned(&variant.ident, message))
        }
    }
}

fn doc_lines(attributes: &[Attribute]) -> Vec<String> {
    let line = |attribute: &Attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Str(line) => Some(line.value()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    };
    attributes.iter().filter_map(line).collect()
}

/// The doc comment of a field, if it has one.
fn one_line(attributes: &[Attribute]) -> Option<String> {
    let lines = doc_lines(attributes);
    (!lines.is_empty()).then(|| lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" "))
}

/// The first literal of `#[error("…")]`.
fn message(variant: &Variant) -> Result<LitStr> {
    let error = variant.attrs.iter().find(|attribute| attribute.path().is_ident("error"));
    let error = error.ok_or_else(|| {
        Error::new_spanned(&variant.ident, format!("`{}` has no message: `#[error(\"…\")]`", variant.ident))
    })?;
    error.parse_args_with(|input: ParseStream<'_>| {
        let message = input.parse()?;
        input.parse::<TokenStream>()?;
        Ok(message)
    })
}

/// What follows the variant's name in each sample.
fn samples(attributes: &[Attribute]) -> Result<Vec<TokenStream>> {
    let samples = attributes.iter().filter(|attribute| attribute.path().is_ident("sample"));
    samples
        .map(|attribute| match &attribute.meta {
            Meta::List(list) => {
                let tokens = &list.tokens;
                Ok(match list.delimiter {
                    syn::MacroDelimiter::Brace(_) => quote!({ #tokens }),
                    syn::MacroDelimiter::Paren(_) | syn::MacroDelimiter::Bracket(_) => quote!((#tokens)),
                })
            }
            Meta::Path(_) | Meta::NameValue(_) => {
                Err(Error::new_spanned(attribute, "a sample is `#[sample { field: value }]` or `#[sample(value)]`"))
            }
        })
        .collect()
}

/// The entries of the body that a field has.
fn parts(field: &Field) -> Result<Vec<Part>> {
    let find = |name: &str| field.attrs.iter().find(|attribute| attribute.path().is_ident(name));
    let words = one_line(&field.attrs);
    match (find("shown"), find("hidden"), &field.ident) {
        (Some(shown), None, _) => shown.parse_args_with(|input: ParseStream<'_>| {
            let mut parts = Vec::new();
            while !input.is_empty() {
                let own = one_line(&Attribute::parse_outer(input)?);
                let name = input.parse()?;
                let read_as = match input.parse::<Option<Token![:]>>()? {
                    Some(_) => input.parse()?,
                    None => field.ty.clone(),
                };
                parts.push(Part { name, read_as, words: own.or_else(|| words.clone()) });
                if !input.is_empty() {
                    input.parse::<Token![,]>()?;
                }
            }
            Ok(parts)
        }),
        (None, Some(_), _) | (None, None, None) => Ok(Vec::new()),
        (None, None, Some(name)) => Ok(vec![Part { name: name.clone(), read_as: field.ty.clone(), words }]),
        (Some(shown), Some(_), _) => Err(Error::new_spanned(shown, "a field is shown or hidden")),
    }
}

/// A sentence as it stands after a colon.
fn uncapitalized(sentence: &str) -> String {
    let mut letters = sentence.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

/// Whether the type is one of these, such as `Vec<…>`.
fn is_of(of: &Type, names: &[&str]) -> bool {
    let Type::Path(path) = of else { return false };
    path.path.segments.last().is_some_and(|last| names.iter().any(|name| last.ident == name))
}

/// Checks the words for buyers: `{field}`, `{field:span}`, `{list.field?}`, `{message:reason}`, and at most one alternative.
fn check_template(template: &LitStr, fields: &[String]) -> Result<()> {
    let text = template.value();
    let error = |message: String| Err(Error::new(template.span(), message));
    let halves: Vec<&str> = text.split(" | ").collect();
    if halves.len() > 2 || text.matches('|').count() + 1 != halves.len() {
        return error("words have at most one alternative, after ` | `".to_owned());
    }
    if halves.len() == 2 && !halves[0].contains('{') {
        return error("an alternative is for the first field being 0 or empty, and there is none".to_owned());
    }
    for half in halves {
        let mut rest = half;
        while let Some(begin) = rest.find(['{', '}']) {
            let Some(end) = rest[begin..].strip_prefix('{').and_then(|inside| inside.find('}')) else {
                return error("a field is `{name}`".to_owned());
            };
            let inside = &rest[begin + 1..begin + 1 + end];
            rest = &rest[begin + end + 2..];
            let (path, format) = match (inside.split_once(':'), inside.strip_suffix('?')) {
                (Some((path, format)), _) => (path, Some(format)),
                (None, Some(path)) => (path, None),
                (None, None) => (inside, None),
            };
            if let Some(format) = format
                && !matches!(format, "span" | "reason")
            {
                return error(format!("`{format}`: a field is shown as `span` or `reason`"));
            }
            let name = path.split('.').next().unwrap_or(path);
            if name != "message" && !fields.iter().any(|field| field == name) {
                let fields = if fields.is_empty() { "none".to_owned() } else { fields.join(", ") };
                return error(format!("the body has no field `{name}`; it has {fields}"));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table with these variants. `NoSuchLine` and `Lines` are good ones.
    fn made(variants: &str) -> Result<TokenStream> {
        let table = format!(
            r#"
            #[rows(Refusal)]
            enum Refusal {{
                /// The cart has no such line.
                ///
                /// Read the cart again.
                #[row(303, "no_such_line", http = 404, buyer = "Line {{line}} is gone. | It is gone.")]
                #[error("the cart has no line {{0}}")]
                #[sample(3)]
                NoSuchLine(#[shown(line)] u32),
                #[row_of(first, stored = 0)]
                Lines(Vec<LineRefusal>),
                {variants}
            }}
            "#
        );
        let table: TokenStream = table.parse()?;
        rows(table.clone())?;
        stored(table)
    }

    /// A variant without fields but for what these replace.
    fn variant(row: &str, error: &str, sample: &str, fields: &str) -> String {
        format!("/// A cause.\n///\n/// An advice.\n#[row({row})] {error} {sample} Full {fields},")
    }

    const ROW: &str = r#"306, "too_many_lines", http = 409"#;
    const ERROR: &str = r#"#[error("full")]"#;

    #[test]
    fn a_good_row_is_taken() {
        assert!(made("").is_ok());
        assert!(made(&variant(ROW, ERROR, "", "")).is_ok());
        assert!(
            made(&variant(ROW, ERROR, "#[sample { limit: 50 }]", "{ limit: u32, #[hidden] why: SmolStr }")).is_ok()
        );
    }

    /// What a mistake is answered, which names the place of the mistake.
    #[test]
    fn each_mistake_is_named() {
        let buyer = |words: &str| {
            variant(&format!("{ROW}, buyer = \"{words}\""), ERROR, "#[sample { max: 3 }]", "{ max: u32 }")
        };
        let cases = [
            (variant(r#"303, "full", http = 409"#, ERROR, "", ""), "the code 303 is that of `NoSuchLine`"),
            (variant(r#"306, "no_such_line", http = 409"#, ERROR, "", ""), "the name is that of `NoSuchLine`"),
            (variant(r#"306, "full""#, ERROR, "", ""), "`full` has no `http = status`"),
            (variant(r#"6, "full", http = 409"#, ERROR, "", ""), "a code has three digits"),
            (variant(r#"306, "full", http = 409, again"#, ERROR, "", ""), "a row has `http`, `buyer`"),
            (variant(ROW, "", "", ""), "`Full` has no message"),
            (variant(ROW, ERROR, "", "{ max: u32 }"), "`Full` needs a sample"),
            (variant(ROW, ERROR, "#[sample(3)]", "(#[shown(line)] u64)"), "has the field `line` with another type"),
            (
                variant(ROW, ERROR, "#[sample { a: 3 }]", "{ #[hidden] #[shown(b)] a: u32 }"),
                "a field is shown or hidden",
            ),
            (buyer("At most {most}."), "the body has no field `most`; it has max"),
            (buyer("{max} | {max} | none"), "at most one alternative"),
            (buyer("Some are left. | None is."), "an alternative is for the first field"),
            (buyer("At most {max:hours}."), "`hours`: a field is shown as `span` or `reason`"),
            (buyer("At most {max."), "a field is `{name}`"),
            (
                "/// One paragraph.\n#[row(306, \"full\", http = 409)] #[error(\"full\")] Full,".to_owned(),
                "has two paragraphs",
            ),
            ("Full,".to_owned(), "`Full` has no row"),
            ("#[row_of(first)] Full,".to_owned(), "`Full` is stored under no number"),
        ];
        for (variants, message) in cases {
            let error = made(&variants).expect_err(message).to_string();
            assert!(error.contains(message), "{error:?} does not say {message:?}");
        }
    }
}
