//! Declarations: what is told once, at a type, and what is made of it. The macros run while a crate is compiled, so nothing of this
//! crate is in a program.

mod refusal;

use proc_macro::TokenStream;

/// Makes the rows of a kind of "no" or of failures from the variants of an enum: code, name, message, cause, what to do, HTTP
/// status, the words for buyers, the fields of the body, and samples. [`refusal`] says how a variant is declared.
#[proc_macro_derive(Rows, attributes(rows, row, row_of, shown, hidden, sample, error))]
pub fn rows(input: TokenStream) -> TokenStream {
    refusal::rows(input.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Writes and reads the values of an enum with [`Rows`] by the code of their row, so the order of the variants is free.
#[proc_macro_derive(Stored)]
pub fn stored(input: TokenStream) -> TokenStream {
    refusal::stored(input.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}
