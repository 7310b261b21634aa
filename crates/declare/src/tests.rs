//! The likeliest mistakes, and what the attributes say of them. The messages name the op and its fact, or the field.

use proc_macro2::TokenStream;
use quote::quote;

use crate::{op, shape};

/// The messages of an expansion that fails.
#[track_caller]
fn messages(made: syn::Result<TokenStream>) -> Vec<String> {
    made.expect_err("it is refused").into_iter().map(|error| error.to_string()).collect()
}

/// Checks that an op with these arguments and this struct is refused with one message.
#[track_caller]
fn refused(arguments: TokenStream, item: TokenStream, message: &str) {
    assert_eq!(messages(op::expand(arguments, item)), [message]);
}

/// A struct that is an op.
fn item() -> TokenStream {
    quote! {
        /// Read a cart.
        #[example(r#"{}"#)]
        struct CartGet { token: CartToken, cart: Option<CartId> }
    }
}

/// The struct of an op whose field is declared like this.
fn with(field: TokenStream) -> TokenStream {
    quote! {
        /// Read a cart.
        #[example(r#"{}"#)]
        struct CartGet { token: CartToken, #field }
    }
}

/// Arguments of an op that says everything.
fn said() -> TokenStream {
    quote!("cart.get", read, weight(1), answers(CartView))
}

#[test]
fn an_op_that_says_everything_is_declared() {
    let made = op::expand(said(), item()).expect("it is declared").to_string();
    for part in ["NAME : & 'static str = \"cart.get\"", "summary : \"Read a cart.\"", "weight : 1", "changes : false"] {
        assert!(made.contains(part), "{part} is not in {made}");
    }
}

#[test]
fn an_op_says_otherwise_than_its_group() {
    let made = op::expand(quote!("cart.get", read, roles(Sell), weight(1), answers()), item());
    let made = made.expect("it is declared").to_string();
    assert!(made.contains("Role :: Sell") && !made.contains("Role :: Watch"), "{made}");
}

#[test]
fn a_fact_that_is_missing_is_named() {
    let words =
        "op `cart.get` does not say `weight(…)`: the processor time of its smallest request over that of `cart.get`";
    refused(quote!("cart.get", read, answers(CartView)), item(), words);
    let all = messages(op::expand(quote!("cart.get", weight(1)), item()));
    assert_eq!(all.len(), 11, "{all:#?}");
    assert_eq!(all[0], "op `cart.get` does not say whether it `changes` or `reads`");
    assert!(all[1].starts_with("op `cart.get` does not say `roles(…)`"), "{all:#?}");
}

#[test]
fn a_misspelt_fact_is_named() {
    let found = messages(op::expand(quote!("cart.get", read, wieght(1), answers(CartView)), item()));
    assert!(found[0].starts_with("op `cart.get` says `wieght`, which is no fact (roles, owner, "), "{found:#?}");
}

#[test]
fn a_fact_is_said_once_and_with_its_value() {
    let twice = quote!("cart.get", read, weight(1), weight(2), answers(CartView));
    refused(twice, item(), "op `cart.get` says `weight` twice");
    let both = quote!("cart.get", reads, changes, weight(1), answers(CartView));
    refused(both, item(), "op `cart.get` either `changes` or `reads`");
    let bare = quote!("cart.get", read, weight, answers(CartView));
    refused(bare, item(), "`weight` of op `cart.get` has its value in parentheses: `weight(…)`");
}

#[test]
fn an_op_has_a_name_and_a_summary() {
    refused(quote!(read, weight(1)), item(), "an op begins with its name: `#[op(\"cart.get\", …)]`");
    let words = "op `cart.get` has no summary; say what it does in a doc comment";
    refused(
        said(),
        quote!(
            struct CartGet {
                token: CartToken,
            }
        ),
        words,
    );
}

#[test]
fn an_op_has_an_example() {
    let item = quote! {
        /// Read a cart.
        struct CartGet { token: CartToken }
    };
    refused(said(), item, "op `cart.get` has no example; add a body that works, `#[example(r#\"{…}\"#)]`");
}

#[test]
fn an_op_is_a_struct_with_one_body() {
    let pair = quote! {
        /// Read a cart.
        #[example(r#"{}"#)]
        struct CartGet(CartToken, CartId);
    };
    refused(said(), pair, "an op is a struct with named fields, or with one unnamed field: a body that it shares");
    let choice = quote! {
        /// Read a cart.
        #[example(r#"{}"#)]
        enum CartGet { Token }
    };
    refused(said(), choice, "`CartGet` is declared as a struct");
}

#[test]
fn a_newer_field_may_be_absent() {
    let words = "`note` is newer than 1.0, so it may be absent: make it an `Option` or `#[optional]`";
    refused(said(), with(quote!(#[since(1, 3)] note: SmolStr)), words);
    let found = messages(op::expand(said(), with(quote!(#[since(3)] note: Option<SmolStr>))));
    assert!(found[0].starts_with("`note`: a version is as `#[since(1, 3)]`"), "{found:#?}");
    refused(
        said(),
        with(quote!(#[since] note: Option<SmolStr>)),
        "`#[since]` of `note` has its value in parentheses: `#[since(…)]`",
    );
}

#[test]
fn the_attributes_of_a_field_are_those_of_its_shape() {
    let words = "`#[narow]` of `note` is none of `#[optional]`, `#[since]`, `#[within]`, `#[narrow]`, `#[with]`";
    refused(said(), with(quote!(#[narow(0..=9)] note: SmolStr)), words);
    let words = "`note` is an `Option`, and so it is optional without `#[optional]`";
    refused(said(), with(quote!(#[optional] note: Option<SmolStr>)), words);
    let words = "`note` is read and written by its shape, which makes its own `#[serde]`";
    refused(said(), with(quote!(#[serde(default)] note: SmolStr)), words);
    let words = "`note` is `#[optional]` or `#[optional(written)]`";
    refused(said(), with(quote!(#[optional(always)] note: SmolStr)), words);
}

#[test]
fn a_bound_has_both_ends_and_stands_once() {
    let words = "the bound of `note` has both ends: `#[within(1..=9)]`";
    refused(said(), with(quote!(#[within(256)] note: Option<SmolStr>)), words);
    let words = "`note` has its bound once: `#[within]` narrows its schema, too";
    refused(said(), with(quote!(#[within(0..=256)] #[narrow(0..=256)] note: Option<SmolStr>)), words);
}

#[test]
fn sets_are_of_fields() {
    let item = quote! {
        #[one_of([recorded] [gate_way])]
        struct PaymentBody { recorded: Option<Recorded>, gateway: Option<Gateway> }
    };
    assert_eq!(messages(shape::expand(TokenStream::new(), item)), ["`gate_way` of `#[one_of]` is no field"]);
}
