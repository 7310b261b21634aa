//! `#[op(…)]`: the facts of an op, and the reader of its requests.

use std::mem;

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Attribute, DeriveInput, Fields, Ident, LitInt, LitStr, Token, Type, parse::Parser, punctuated::Punctuated};

use crate::{
    arguments::Arguments,
    shape::{self, Since, doc_lines, fields_of},
};

/// The code of an op.
///
/// # Errors
/// Why the declaration is none, at its place.
pub(crate) fn expand(arguments: TokenStream, item: TokenStream) -> syn::Result<TokenStream> {
    let arguments: Arguments = syn::parse2(arguments)?;
    let mut input: DeriveInput = syn::parse2(item)?;
    let (name, op) = (input.ident.clone(), arguments.name.value());
    let summary = summary(&input);
    if summary.is_empty() {
        return Err(syn::Error::new(
            name.span(),
            format!("op `{op}` has no summary; say what it does in a doc comment"),
        ));
    }
    let examples = examples(&mut input)?;
    if examples.is_empty() {
        let words = format!("op `{op}` has no example; add a body that works, `#[example(r#\"{{…}}\"#)]`");
        return Err(syn::Error::new(name.span(), words));
    }
    let shared = shared_body(&input)?;
    let body = match shared {
        Some(body) => quote!(#body),
        None => quote!(#name),
    };
    let declared = match shared {
        Some(_) => {
            let (DeriveInput { attrs, vis, .. }, fields) = (&input, fields_of(&input)?);
            quote! {
                #(#attrs)*
                #[derive(Clone, Debug, PartialEq, serde::Serialize)]
                #[serde(transparent)]
                #vis struct #name #fields;
            }
        }
        // The summary is the op's, and not the description of its body.
        None => shape::made(&input, None, false)?,
    };
    let facts = facts(&arguments, &summary, &examples, &body)?;
    let literal = &arguments.name;
    let answered = match arguments.fact("by_hand") {
        Some(_) => quote!(),
        None => answered(&arguments, &name)?,
    };
    let read = match (arguments.fact("by_hand"), shared) {
        (Some(_), _) => quote!(<#name>::read(body)),
        (None, Some(_)) => quote!(#name(body.read_checked()?).command().map(crate::call::Called::into_call)),
        (None, None) => quote!(body.read_checked::<#name>()?.command().map(crate::call::Called::into_call)),
    };
    Ok(quote! {
        #declared

        impl crate::spec::OpSpec for #name {
            const NAME: &'static str = #literal;
            const FACTS: crate::spec::Facts = #facts;
        }

        #answered

        impl crate::spec::ReadOp for #name {
            fn read(
                body: crate::unread::Body<'_>,
            ) -> ::core::result::Result<(crate::Call, crate::call::Shape), crate::Rejection> {
                #read
            }
        }
    })
}

/// The answer that clients read, which is the first of several.
fn answered(arguments: &Arguments, name: &Ident) -> syn::Result<TokenStream> {
    let answer = match answers(arguments)?.into_iter().next() {
        Some(first) => quote!(#first),
        None => quote!(()),
    };
    Ok(quote!(impl crate::spec::AnsweredOp for #name { type Answer = #answer; }))
}

/// The bodies of the ok answers.
fn answers(arguments: &Arguments) -> syn::Result<Punctuated<Type, Token![,]>> {
    Punctuated::<Type, Token![,]>::parse_terminated.parse2(arguments.needed("answers").clone())
}

/// The first paragraph of the doc comment, in one line.
fn summary(input: &DeriveInput) -> String {
    let lines = doc_lines(&input.attrs);
    let first = lines.iter().map(|line| line.trim()).take_while(|line| !line.is_empty());
    first.collect::<Vec<_>>().join(" ")
}

/// Takes the examples off the struct.
fn examples(input: &mut DeriveInput) -> syn::Result<Vec<LitStr>> {
    let (said, others) =
        mem::take(&mut input.attrs).into_iter().partition(|each: &Attribute| each.path().is_ident("example"));
    input.attrs = others;
    said.iter().map(Attribute::parse_args).collect()
}

/// The type of the only unnamed field, if the op shares its body with others.
fn shared_body(input: &DeriveInput) -> syn::Result<Option<&Type>> {
    match fields_of(input)? {
        Fields::Named(_) => Ok(None),
        Fields::Unnamed(fields) if fields.unnamed.len() == 1 => Ok(fields.unnamed.first().map(|field| &field.ty)),
        Fields::Unnamed(_) | Fields::Unit => {
            let words = "an op is a struct with named fields, or with one unnamed field: a body that it shares";
            Err(syn::Error::new(input.ident.span(), words))
        }
    }
}

/// The list of a fact.
fn words(said: &TokenStream) -> syn::Result<Vec<Ident>> {
    Ok(Punctuated::<Ident, Token![,]>::parse_terminated.parse2(said.clone())?.into_iter().collect())
}

fn facts(arguments: &Arguments, summary: &str, examples: &[LitStr], body: &TokenStream) -> syn::Result<TokenStream> {
    let changes = arguments.changes;
    let one = |word: &str| syn::parse2::<Ident>(arguments.needed(word).clone());
    let roles = words(arguments.needed("roles"))?;
    let or = arguments.fact("or").map(words).transpose()?.unwrap_or_default();
    let (owner, venues, batch) = (one("owner")?, one("venues")?, one("batch")?);
    let (class, pace, frame, http) = (one("class")?, one("pace")?, one("frame")?, one("http")?);
    let unknown = one("unknown")?;
    let weight: LitInt = syn::parse2(arguments.needed("weight").clone())?;
    let answers = answers(arguments)?.into_iter();
    let since = match arguments.fact("since") {
        Some(said) => syn::parse2::<Since>(said.clone())?.minor,
        None => 0,
    };
    let examples_need = match arguments.fact("examples_need") {
        Some(said) => quote!(::core::option::Option::Some(#said)),
        None => quote!(::core::option::Option::None),
    };
    Ok(quote! {
        crate::spec::Facts {
            summary: #summary,
            changes: #changes,
            permission: crate::permission::Permission {
                roles: &[#(boxoffice_core::access::Role::#roles),*],
                or: &[#(crate::permission::Exception::#or),*],
                owner: crate::permission::OwnerRule::#owner,
                venues: crate::permission::VenueRule::#venues,
                batch: crate::permission::BatchRule::#batch,
            },
            class: crate::op::HeadClass::#class,
            pace: crate::op::Pace::#pace,
            unknown: crate::op::UnknownFields::#unknown,
            frame: crate::op::FrameLength::#frame,
            methods: crate::op::HttpMethods::#http,
            weight: #weight,
            since: #since,
            examples: &[#(#examples),*],
            examples_need: #examples_need,
            body: <#body as crate::repr::WireRepr>::schema,
            newer: <#body as crate::repr::WireRepr>::newer,
            answers: &[#(<#answers as crate::repr::WireRepr>::schema),*],
        }
    })
}
