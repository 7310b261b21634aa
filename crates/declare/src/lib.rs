//! Declarations: what is told once, at a type, and what is made of it. The macros run while a crate is compiled, so nothing of this
//! crate is in a program.

use proc_macro::TokenStream;

mod arguments;
mod facts;
mod op;
mod refusal;
mod shape;
mod stored;

#[cfg(test)]
mod tests;

/// Declares an op of the protocol: its name, what it is, and its body as a plain struct.
///
/// ```text
/// /// Hold named seats.
/// #[op("cart.hold_seats", hold, weight(14), answers(Held))]
/// pub struct HoldSeats {
///     pub token: CartToken,
///     pub customer: Option<Id>,
///     pub session: Id,
///     pub seats: List<Seat, 1, HOLD_SEATS_MAX>,
/// }
///
/// impl HoldSeats {
///     fn command(self) -> Converted<Command> { … }
/// }
/// ```
///
/// The doc comment is the op's summary. A fact that the op does not say does not compile. A group (`hold`) says the facts that
/// many ops share, and the op may say one of them otherwise. Each op has an example, `#[example(r#"{…}"#)]`, or several: bodies
/// as JSON that work on a fresh node, each after those of the ops before it. `facts.rs` has the list of both. A body that several ops share
/// stands in a struct with one unnamed field: `pub struct VenueGet(Get);`. The fields are those of a [`macro@shape`].
#[proc_macro_attribute]
pub fn op(arguments: TokenStream, item: TokenStream) -> TokenStream {
    written(op::expand(arguments.into(), item.into()))
}

/// Declares a map of the protocol as a plain struct, from which its reader, its writer and its schema are made.
///
/// - A field of the type `Option` may be absent, and is left out if it is `None`. `#[optional]` says the same of a field that
///   has its default then. With `#[optional(written)]` the default is written as well.
/// - `#[since(1, 3)]` is the version of the protocol that has brought the field.
/// - `#[within(1..=9)]` is the bound of a number. It stands in the schema, and requests out of it are refused with the name of the
///   field. A text or a list has its bound as its type.
/// - `#[narrow(…)]` restricts the schema of the field's type, and `#[with("path")]` reads and writes the field by the functions
///   of a module.
/// - `Name::of(…)` makes the value of the fields that are needed. A place that sets others with `..` stays as it is when a field is
///   added.
/// - `#[one_of([a, b] [c])]` at the struct says that exactly one of these sets of optional fields is present.
///   `[a without b]` is a set without `b`.
///
/// The schema is called as the struct, or `Name` with `#[shape("Name")]`. Doc comments are the descriptions in it, but the body
/// that several ops share (`#[shape(body)]`) has none itself.
#[proc_macro_attribute]
pub fn shape(arguments: TokenStream, item: TokenStream) -> TokenStream {
    written(shape::expand(arguments.into(), item.into()))
}

/// Makes the rows of a kind of "no" or of failures from the variants of an enum: code, name, message, cause, what to do, HTTP
/// status, the words for buyers, the fields of the body, and samples. [`refusal`] says how a variant is declared.
#[proc_macro_derive(Rows, attributes(rows, row, row_of, shown, hidden, sample, error))]
pub fn rows(input: TokenStream) -> TokenStream {
    written(refusal::rows(input.into()))
}

/// Writes and reads the values of an enum with [`Rows`] by the code of their row, so the order of the variants is free.
#[proc_macro_derive(StoredByCode)]
pub fn stored_by_code(input: TokenStream) -> TokenStream {
    written(refusal::stored(input.into()))
}

/// Writes and reads values in their stored form, which `boxoffice_core::stored` describes. Each field and each variant has a number,
/// `#[n(3)]`, which is used once and never again.
///
/// - `#[stored(name = "FeedMessage")]`: the name in the list of stored types, where that of the type itself is another's.
/// - `#[stored(transparent)]`: a struct with one field is written as that field.
/// - `#[stored(lenient)]`: fields that this program does not know are skipped. Otherwise they are refused.
/// - `#[stored(skip)]` or `#[stored(skip = path)]`: the field is not stored. It is read as its default, or as what a function gives.
/// - `#[stored(with = path)]`: a module whose `encode` and `decode` write and read the field.
/// - `#[stored(bounds(T: Encode + Decode))]`: what the type's parameters must be.
#[proc_macro_derive(Stored, attributes(n, stored))]
pub fn stored(input: TokenStream) -> TokenStream {
    written(stored::expand(input.into()))
}

/// The code, or the errors at their places.
fn written(made: syn::Result<proc_macro2::TokenStream>) -> TokenStream {
    made.unwrap_or_else(|error| error.into_compile_error()).into()
}
