//! `#[shape]`: the reader, the writer and the schema of a map.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::{
    Attribute, Data, DeriveInput, Expr, ExprLit, Field, Fields, Ident, Lit, LitInt, LitStr, Meta, Token, Type,
    Visibility, bracketed,
    parse::{Parse, ParseStream, Parser},
    punctuated::Punctuated,
};

/// The code of a shape.
///
/// # Errors
/// Why the declaration is none, at its place.
pub(crate) fn expand(arguments: TokenStream, item: TokenStream) -> syn::Result<TokenStream> {
    if arguments.to_string() == "body" {
        return made(&syn::parse2(item)?, None, false);
    }
    let component: Option<LitStr> = if arguments.is_empty() { None } else { Some(syn::parse2(arguments)?) };
    made(&syn::parse2(item)?, component, true)
}

/// The struct with its reader, its writer and its schema, which is called `component` or as the struct. Its doc comment is the
/// schema's description if it is described.
pub(crate) fn made(input: &DeriveInput, component: Option<LitStr>, is_described: bool) -> syn::Result<TokenStream> {
    let DeriveInput { attrs, vis, ident, generics, .. } = input;
    if let Some(parameter) = generics.params.first() {
        return Err(syn::Error::new_spanned(parameter, "the shape of a map has no generic parameters"));
    }
    let Fields::Named(named) = fields_of(input)? else {
        return Err(syn::Error::new(ident.span(), format!("`{ident}` is a struct with named fields")));
    };
    let fields = named.named.iter().map(ShapeField::read).collect::<syn::Result<Vec<_>>>()?;
    let sets = sets(attrs, &fields)?;
    let component = component.unwrap_or_else(|| LitStr::new(&ident.to_string(), ident.span()));
    let words = if is_described { doc_lines(attrs) } else { Vec::new() };
    let attributes = attrs.iter().filter(|attribute| !attribute.path().is_ident("one_of"));
    let members = fields.iter().map(ShapeField::member);
    let schemas = fields.iter().map(ShapeField::schema);
    let newer = fields.iter().map(ShapeField::newer);
    let checks = fields.iter().map(ShapeField::check);
    let needed = constructor(vis, ident, &fields);
    Ok(quote! {
        #(#attributes)*
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #vis struct #ident {
            #(#members)*
        }

        #needed

        impl crate::repr::WireWrite for #ident {
            fn write<S: serde::Serializer>(&self, serializer: S) -> ::core::result::Result<S::Ok, S::Error> {
                serde::Serialize::serialize(self, serializer)
            }
        }

        impl crate::repr::WireRepr for #ident {
            fn read<'de, D: serde::Deserializer<'de>>(deserializer: D) -> ::core::result::Result<Self, D::Error> {
                serde::Deserialize::deserialize(deserializer)
            }

            fn schema(shapes: &mut crate::repr::shape::Shapes) -> serde_json::Value {
                shapes.named::<Self>(#component, |shapes| {
                    let _ = &shapes;
                    let fields: Vec<crate::repr::shape::Field> = vec![#(#schemas),*];
                    crate::repr::shape::map(fields, &[#(#sets),*], &[#(#words),*])
                })
            }

            fn newer(newer: &mut crate::newer::Newer) {
                let _ = &newer;
                #(#newer)*
            }

            fn check(&self) -> ::core::result::Result<(), crate::bound::OutOfBounds> {
                #(#checks)*
                ::core::result::Result::Ok(())
            }
        }
    })
}

/// The constructor with the fields that are needed. A place that makes the value with it stays as it is when a field is added that
/// may be absent.
fn constructor(vis: &Visibility, ident: &Ident, fields: &[ShapeField<'_>]) -> TokenStream {
    let needed = fields.iter().filter(|field| field.presence == Presence::Needed);
    let parameters = needed.map(|ShapeField { name, field, .. }| {
        let kind = &field.ty;
        quote!(#name: #kind)
    });
    let values = fields.iter().map(|ShapeField { name, presence, .. }| match presence {
        Presence::Needed => quote!(#name),
        Presence::Omitted | Presence::Written => quote!(#name: ::core::default::Default::default()),
    });
    quote! {
        impl #ident {
            /// The value with these fields. Those that may be absent have their defaults, and are set with `..`.
            #[allow(dead_code, clippy::too_many_arguments, clippy::should_implement_trait)]
            #vis fn of(#(#parameters),*) -> #ident {
                #ident { #(#values),* }
            }
        }
    }
}

/// The fields of a struct.
pub(crate) fn fields_of(input: &DeriveInput) -> syn::Result<&Fields> {
    match &input.data {
        Data::Struct(data) => Ok(&data.fields),
        Data::Enum(_) | Data::Union(_) => {
            Err(syn::Error::new(input.ident.span(), format!("`{}` is declared as a struct", input.ident)))
        }
    }
}

/// The lines of a doc comment.
pub(crate) fn doc_lines(attributes: &[Attribute]) -> Vec<String> {
    let line = |attribute: &Attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(ExprLit { lit: Lit::Str(line), .. }) => Some(line.value()),
            _ => None,
        },
        Meta::NameValue(_) | Meta::Path(_) | Meta::List(_) => None,
    };
    attributes.iter().filter_map(line).collect()
}

/// A version of the protocol, `1, 3`.
pub(crate) struct Since {
    pub(crate) minor: u32,
}

impl Parse for Since {
    fn parse(input: ParseStream<'_>) -> syn::Result<Since> {
        let major: LitInt = input.parse()?;
        input.parse::<Token![,]>()?;
        let minor: LitInt = input.parse()?;
        if major.base10_parse::<u32>()? != 1 {
            return Err(syn::Error::new(major.span(), "the protocol has version 1: `since(1, 3)`"));
        }
        Ok(Since { minor: minor.base10_parse()? })
    }
}

/// When a field may be absent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Presence {
    Needed,
    /// Left out if it has its default.
    Omitted,
    /// May be absent, and is always written.
    Written,
}

/// A field of a shape.
struct ShapeField<'a> {
    field: &'a Field,
    name: &'a Ident,
    presence: Presence,
    since: u32,
    narrow: Option<TokenStream>,
    within: Option<TokenStream>,
    with: Option<LitStr>,
}

/// The attributes of fields that the macro reads and takes away.
const OF_FIELDS: [&str; 5] = ["optional", "since", "within", "narrow", "with"];

impl ShapeField<'_> {
    fn read(field: &Field) -> syn::Result<ShapeField<'_>> {
        let name = field.ident.as_ref().expect("it is a named field");
        let presence = if is_option(&field.ty) { Presence::Omitted } else { Presence::Needed };
        let mut read = ShapeField { field, name, presence, since: 0, narrow: None, within: None, with: None };
        for attribute in &field.attrs {
            let at = |words: String| syn::Error::new_spanned(attribute, words);
            let Some(word) = attribute.path().get_ident() else { continue };
            match (word.to_string().as_str(), &attribute.meta) {
                ("optional", _) if is_option(&field.ty) => {
                    return Err(at(format!("`{name}` is an `Option`, and so it is optional without `#[optional]`")));
                }
                ("optional", Meta::Path(_)) => read.presence = Presence::Omitted,
                ("optional", Meta::List(list)) if list.tokens.to_string() == "written" => {
                    read.presence = Presence::Written;
                }
                ("optional", _) => return Err(at(format!("`{name}` is `#[optional]` or `#[optional(written)]`"))),
                ("since", Meta::List(list)) => {
                    let since: Since = syn::parse2(list.tokens.clone())
                        .map_err(|error| at(format!("`{name}`: a version is as `#[since(1, 3)]`; {error}")))?;
                    read.since = since.minor;
                }
                ("within", Meta::List(list)) if !list.tokens.to_string().contains("..=") => {
                    return Err(at(format!("the bound of `{name}` has both ends: `#[within(1..=9)]`")));
                }
                ("within", Meta::List(list)) => read.within = Some(list.tokens.clone()),
                ("narrow", Meta::List(list)) => read.narrow = Some(list.tokens.clone()),
                ("with", Meta::List(list)) => read.with = Some(syn::parse2(list.tokens.clone())?),
                (word, _) if OF_FIELDS.contains(&word) => {
                    return Err(at(format!("`#[{word}]` of `{name}` has its value in parentheses: `#[{word}(…)]`")));
                }
                ("serde", _) => {
                    return Err(at(format!(
                        "`{name}` is read and written by its shape, which makes its own `#[serde]`"
                    )));
                }
                ("doc" | "cfg" | "allow" | "expect", _) => {}
                (other, _) => {
                    let known = OF_FIELDS.map(|word| format!("`#[{word}]`")).join(", ");
                    return Err(at(format!("`#[{other}]` of `{name}` is none of {known}")));
                }
            }
        }
        if read.within.is_some() && read.narrow.is_some() {
            let words = format!("`{name}` has its bound once: `#[within]` narrows its schema, too");
            return Err(syn::Error::new(name.span(), words));
        }
        if read.since > 0 && read.presence == Presence::Needed {
            let words =
                format!("`{name}` is newer than 1.0, so it may be absent: make it an `Option` or `#[optional]`");
            return Err(syn::Error::new(name.span(), words));
        }
        Ok(read)
    }

    /// The field as it stands in the struct.
    fn member(&self) -> TokenStream {
        let ShapeField { field, name, presence, .. } = self;
        let is_read = |attribute: &&Attribute| OF_FIELDS.iter().any(|word| attribute.path().is_ident(word));
        let attributes = field.attrs.iter().filter(|attribute| !is_read(attribute));
        let (vis, kind) = (&field.vis, &field.ty);
        let with = self.with.clone().unwrap_or_else(|| LitStr::new("crate::repr", Span::call_site()));
        let serde = match presence {
            Presence::Needed => quote!(with = #with),
            Presence::Omitted => quote!(with = #with, default, skip_serializing_if = "crate::repr::is_default"),
            Presence::Written => quote!(with = #with, default),
        };
        quote!(#(#attributes)* #[serde(#serde)] #vis #name: #kind,)
    }

    /// The field of the schema.
    fn schema(&self) -> TokenStream {
        let (name, kind) = (self.name.to_string(), &self.field.ty);
        let (is_needed, words) = (self.presence == Presence::Needed, doc_lines(&self.field.attrs));
        let schema = quote!(<#kind as crate::repr::WireRepr>::schema(shapes));
        let schema = match self.within.as_ref().or(self.narrow.as_ref()) {
            Some(narrow) => quote!({
                let schema = #schema;
                crate::repr::shape::Narrow::narrow(#narrow, schema, shapes)
            }),
            None => schema,
        };
        quote! {
            crate::repr::shape::Field { name: #name, is_needed: #is_needed, schema: #schema, words: &[#(#words),*] }
        }
    }

    /// The check of the field's bound, and of those in it.
    fn check(&self) -> TokenStream {
        let (name, text) = (self.name, self.name.to_string());
        let own = self.within.as_ref().map(|bound| quote!(crate::bound::check(&self.#name, #text, #bound)?;));
        quote! {
            #own
            crate::repr::WireRepr::check_field(&self.#name, #text)?;
        }
    }

    /// The row of the version table, and those of the field's own shape.
    fn newer(&self) -> TokenStream {
        let (name, kind, since) = (self.name.to_string(), &self.field.ty, self.since);
        quote!(newer.field(#name, #since, <#kind as crate::repr::WireRepr>::newer);)
    }
}

/// Whether a type is written as `Option<…>`.
fn is_option(kind: &Type) -> bool {
    match kind {
        Type::Path(path) => path.path.segments.last().is_some_and(|last| last.ident == "Option"),
        _ => false,
    }
}

/// The sets of `#[one_of(…)]`.
fn sets(attributes: &[Attribute], fields: &[ShapeField<'_>]) -> syn::Result<Vec<TokenStream>> {
    let Some(attribute) = attributes.iter().find(|attribute| attribute.path().is_ident("one_of")) else {
        return Ok(Vec::new());
    };
    let sets = attribute.parse_args_with(|input: ParseStream<'_>| {
        let mut sets = Vec::new();
        while !input.is_empty() {
            sets.push(input.parse::<OneSet>()?);
        }
        Ok(sets)
    })?;
    let known = |name: &Ident| match fields.iter().any(|field| field.name == name) {
        true => Ok(name.to_string()),
        false => Err(syn::Error::new(name.span(), format!("`{name}` of `#[one_of]` is no field"))),
    };
    let written = |set: &OneSet| {
        let together = set.together.iter().map(known).collect::<syn::Result<Vec<_>>>()?;
        let without = set.without.iter().map(known).collect::<syn::Result<Vec<_>>>()?;
        Ok(quote!(crate::repr::shape::Set(&[#(#together),*], &[#(#without),*])))
    };
    sets.iter().map(written).collect()
}

/// `[a, b without c]`.
struct OneSet {
    together: Vec<Ident>,
    without: Option<Ident>,
}

impl Parse for OneSet {
    fn parse(input: ParseStream<'_>) -> syn::Result<OneSet> {
        let inner;
        bracketed!(inner in input);
        let tokens: TokenStream = inner.parse()?;
        let mut together: Vec<proc_macro2::TokenTree> = Vec::new();
        let mut without = None;
        let mut tokens = tokens.into_iter();
        for token in tokens.by_ref() {
            match &token {
                proc_macro2::TokenTree::Ident(word) if word == "without" => {
                    without = Some(syn::parse2(tokens.collect())?);
                    break;
                }
                _ => together.push(token),
            }
        }
        let together = Punctuated::<Ident, Token![,]>::parse_terminated.parse2(together.into_iter().collect())?;
        Ok(OneSet { together: together.into_iter().collect(), without })
    }
}
