//! The likeliest mistakes with numbers of fields and variants, and what the derive says of them.

use proc_macro2::TokenStream;
use quote::quote;

use super::expand;

/// Checks that a declaration is refused with one message.
#[track_caller]
fn refused(item: TokenStream, message: &str) {
    let errors = expand(item).expect_err("it is refused");
    assert_eq!(errors.into_iter().map(|error| error.to_string()).collect::<Vec<_>>(), [message]);
}

/// A struct with these words and this second field.
fn item(words: TokenStream, field: TokenStream) -> TokenStream {
    quote! {
        #words
        struct Line {
            #[n(0)]
            number: u32,
            #field
        }
    }
}

fn with(field: TokenStream) -> TokenStream {
    item(quote!(), field)
}

#[test]
fn a_struct_is_written_in_the_order_of_its_numbers() {
    let made = expand(with(quote!(#[n(2)] note: Option<SmolStr>))).expect("it is declared").to_string();
    let [number, gone, note] =
        ["encode (field_number", "gone ()", "encode (field_note"].map(|part| made.find(part).expect(part));
    assert!(number < gone && gone < note, "{made}");
    assert!(made.contains("\"Line\"") && made.contains("fields . end ()"), "{made}");
}

#[test]
fn words_change_what_is_made() {
    let field = quote!(#[stored(skip = Layout::unset)] layout: Layout);
    let made = expand(item(quote!(#[stored(lenient, name = "CartLine")]), field)).expect("it is declared").to_string();
    for part in ["\"CartLine\"", "fields . ignore_rest (from)", "layout : Layout :: unset ()"] {
        assert!(made.contains(part), "{part} is not in {made}");
    }
}

#[test]
fn a_field_or_a_variant_without_a_number_is_named() {
    refused(with(quote!(note: SmolStr)), "the field `note` has no number: `#[n(0)]`");
    refused(
        quote!(
            struct Line(#[n(0)] u32, u64);
        ),
        "the field `1` has no number: `#[n(0)]`",
    );
    let variant = quote! {
        enum Line {
            #[n(0)]
            New,
            Old,
        }
    };
    refused(variant, "the variant `Old` has no number: `#[n(0)]`");
    let field = quote! {
        enum Line {
            #[n(0)]
            New { note: SmolStr },
        }
    };
    refused(field, "the field `note` has no number: `#[n(0)]`");
}

#[test]
fn a_number_is_used_once() {
    refused(with(quote!(#[n(0)] note: SmolStr)), "the number 0 is used twice");
    let variants = quote! {
        enum Line {
            #[n(1)]
            New,
            #[n(1)]
            Old,
        }
    };
    refused(variants, "the number 1 is used twice");
}

#[test]
fn a_field_or_a_variant_has_one_number() {
    refused(with(quote!(#[n(1)] #[n(2)] note: SmolStr)), "the field `note` has two numbers");
    let variant = quote! {
        enum Line {
            #[n(0)]
            #[n(1)]
            New,
        }
    };
    refused(variant, "the variant `New` has two numbers");
    refused(with(quote!(#[n("1")] note: SmolStr)), "expected integer literal");
}

#[test]
fn a_transparent_struct_has_one_field() {
    let words = "a transparent struct has one field";
    refused(item(quote!(#[stored(transparent)]), quote!(note: SmolStr)), words);
    refused(
        quote!(
            #[stored(transparent)]
            struct Line;
        ),
        words,
    );
    let made = expand(item(quote!(#[stored(transparent)]), quote!(#[stored(skip)] cached: u64)));
    made.expect("a field that is not stored does not count");
}

#[test]
fn an_unknown_word_is_answered_with_all_there_are() {
    let words = "`stored` has `name`, `transparent`, `lenient`, `skip`, `with` and `bounds`";
    refused(item(quote!(#[stored(transparant)]), quote!()), words);
    refused(with(quote!(#[n(1)] #[stored(default)] note: SmolStr)), words);
}

#[test]
fn a_union_is_not_stored() {
    refused(quote!(union Line { number: u32, other: u32 }), "a union is not stored");
}
