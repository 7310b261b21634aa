//! `#[derive(Stored)]`: how a value is written and read in its stored form.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::{
    Attribute, Data, DeriveInput, Fields, Ident, LitInt, LitStr, Path, Token, Type, WherePredicate, parse::Parse,
    punctuated::Punctuated,
};

/// What `#[stored(…)]` says at a type or a field.
#[derive(Default)]
struct Words {
    /// The name of the type in the schema, if it is not its own.
    name: Option<LitStr>,
    /// The one field is written as if it stood alone.
    transparent: bool,
    /// A peer of a later version may say more, which is skipped.
    lenient: bool,
    /// The field is not stored, and is read as this value.
    skip: Option<TokenStream>,
    /// Only the version that is rehearsed has it. It is not in the schema, and a process without that version does not know it.
    next: bool,
    /// A module with functions that write and read the field.
    with: Option<Path>,
    /// What the parameters of the type must be.
    bounds: Option<Punctuated<WherePredicate, Token![,]>>,
}

impl Words {
    fn of(attributes: &[Attribute]) -> syn::Result<Words> {
        let mut words = Words::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("stored")) {
            attribute.parse_nested_meta(|meta| {
                let name = meta.path.get_ident().map(Ident::to_string).unwrap_or_default();
                match name.as_str() {
                    "name" => words.name = Some(meta.value()?.parse()?),
                    "transparent" => words.transparent = true,
                    "lenient" => words.lenient = true,
                    "next" => words.next = true,
                    "skip" if meta.input.peek(Token![=]) => {
                        let path: Path = meta.value()?.parse()?;
                        words.skip = Some(quote! { #path() });
                    }
                    "skip" => words.skip = Some(quote! { ::core::default::Default::default() }),
                    "with" => words.with = Some(meta.value()?.parse()?),
                    "bounds" => {
                        let content;
                        syn::parenthesized!(content in meta.input);
                        words.bounds = Some(content.parse_terminated(WherePredicate::parse, Token![,])?);
                    }
                    _ => {
                        let words =
                            "`stored` has `name`, `transparent`, `lenient`, `next`, `skip`, `with` and `bounds`";
                        return Err(meta.error(words));
                    }
                }
                Ok(())
            })?;
        }
        Ok(words)
    }
}

/// The number of a field or a variant.
fn number(attributes: &[Attribute], what: &str, span: Span) -> syn::Result<u32> {
    let mut numbers = attributes.iter().filter(|attribute| attribute.path().is_ident("n"));
    let attribute = numbers.next().ok_or_else(|| syn::Error::new(span, format!("{what} has no number: `#[n(0)]`")))?;
    if let Some(second) = numbers.next() {
        return Err(syn::Error::new_spanned(second, format!("{what} has two numbers")));
    }
    attribute.parse_args::<LitInt>()?.base10_parse()
}

/// A field with its number.
struct Member<'a> {
    /// Its name, or its place in a tuple.
    name: TokenStream,
    /// The variable with its value.
    value: Ident,
    ty: &'a Type,
    words: Words,
}

impl Member<'_> {
    fn encode(&self) -> TokenStream {
        let value = &self.value;
        match &self.words.with {
            Some(path) => quote! { #path::encode(#value, out); },
            None => quote! { __stored::Encode::encode(#value, out); },
        }
    }

    fn is_present(&self) -> TokenStream {
        let value = &self.value;
        match &self.words.with {
            Some(_) => quote! { true },
            None => quote! { !__stored::Encode::is_absent(#value) },
        }
    }

    fn decode(&self) -> TokenStream {
        let (value, ty) = (&self.value, &self.ty);
        match &self.words.with {
            Some(path) => quote! { let #value: #ty = fields.next_with(from, #path::decode, || None)?; },
            None if self.words.next => quote! { let #value: #ty = fields.next_rehearsed(from)?; },
            None => quote! { let #value: #ty = fields.next(from)?; },
        }
    }

    fn shape(&self) -> TokenStream {
        let ty = self.ty;
        match &self.words.with {
            Some(path) => quote! { #path::shape(schema) },
            None => quote! { <#ty as __stored::Decode>::shape(schema) },
        }
    }
}

/// The fields of a struct or a variant.
struct Members<'a> {
    /// By number. `None` in the place of a number that is no longer used.
    numbered: Vec<Option<Member<'a>>>,
    skipped: Vec<Member<'a>>,
}

impl<'a> Members<'a> {
    fn of(fields: &'a Fields, is_transparent: bool) -> syn::Result<Members<'a>> {
        let (mut numbered, mut skipped) = (BTreeMap::new(), Vec::new());
        for (place, field) in fields.iter().enumerate() {
            let words = Words::of(&field.attrs)?;
            let (name, value) = match &field.ident {
                Some(name) => (quote! { #name }, format_ident!("field_{name}")),
                None => {
                    let place = syn::Index::from(place);
                    (quote! { #place }, format_ident!("field_{}", place.index))
                }
            };
            let what = format!("the field `{name}`");
            let member = Member { name, value, ty: &field.ty, words };
            if member.words.skip.is_some() {
                skipped.push(member);
                continue;
            }
            let span = member.name.clone().into_iter().next().map_or_else(Span::call_site, |token| token.span());
            let number = if is_transparent { numbered.len() as u32 } else { number(&field.attrs, &what, span)? };
            if numbered.insert(number, member).is_some() {
                return Err(syn::Error::new_spanned(field, format!("the number {number} is used twice")));
            }
        }
        let length = numbered.last_key_value().map_or(0, |(number, _)| number + 1);
        let numbered = (0..length).map(|number| numbered.remove(&number)).collect();
        Ok(Members { numbered, skipped })
    }

    /// The pattern or the expression of all fields.
    fn braces(&self, skipped: impl Fn(&Member<'a>) -> TokenStream) -> TokenStream {
        let stored = self.numbered.iter().flatten().map(|Member { name, value, .. }| quote! { #name: #value });
        let others = self.skipped.iter().map(|member| {
            let (name, value) = (&member.name, skipped(member));
            quote! { #name: #value }
        });
        quote! { { #(#stored,)* #(#others,)* } }
    }

    fn pattern(&self) -> TokenStream {
        self.braces(|_| quote! { _ })
    }

    /// Counts the fields up to the last one that is present, calls `begin` with their number, and writes them.
    fn encode(&self, begin: &TokenStream) -> TokenStream {
        if self.numbered.is_empty() {
            return quote! { let present = 0; #begin };
        }
        let mut counted = quote! { 0 };
        for (place, member) in self.numbered.iter().enumerate() {
            if let Some(member) = member {
                let (is_present, count) = (member.is_present(), place + 1);
                counted = quote! { if #is_present { #count } else { #counted } };
            }
        }
        let writes = self.numbered.iter().enumerate().map(|(place, member)| {
            let write = member.as_ref().map_or_else(|| quote! { out.gone(); }, Member::encode);
            quote! { if present > #place { #write } }
        });
        quote! { let present: usize = #counted; #begin #(#writes)* }
    }

    /// The list of the fields with their numbers, names and shapes.
    fn shapes(&self) -> TokenStream {
        let fields = self.numbered.iter().zip(0_u32..).filter_map(|(member, number)| {
            let member = member.as_ref().filter(|member| !member.words.next)?;
            let (name, shape) = (member.name.to_string(), member.shape());
            Some(quote! { (#number, #name, #shape) })
        });
        quote! { __stored::fields([#(#fields),*]) }
    }

    /// Reads all fields, and then is this value.
    fn decode(&self, name: &TokenStream, is_lenient: bool) -> TokenStream {
        let reads = self
            .numbered
            .iter()
            .map(|member| member.as_ref().map_or_else(|| quote! { fields.skip(from)?; }, Member::decode));
        let value = self.braces(|member| member.words.skip.clone().expect("it is one of the skipped"));
        let end = if is_lenient {
            quote! { fields.ignore_rest(from)?; }
        } else {
            quote! { fields.end()?; }
        };
        quote! { #(#reads)* #end ::core::result::Result::Ok(#name #value) }
    }
}

/// The code for a type.
///
/// # Errors
/// Why the declaration is none, at its place.
pub(crate) fn expand(input: TokenStream) -> syn::Result<TokenStream> {
    let DeriveInput { attrs, ident, mut generics, data, .. } = syn::parse2(input)?;
    let words = Words::of(&attrs)?;
    if let Some(bounds) = &words.bounds {
        generics.make_where_clause().predicates.extend(bounds.iter().cloned());
    }
    let name = words.name.as_ref().map_or_else(|| ident.to_string(), LitStr::value);
    let path = quote! { ::core::concat!(::core::module_path!(), "::", ::core::stringify!(#ident)) };
    let parameters = generics.type_params().map(|parameter| &parameter.ident);
    let name = quote! { let name = __stored::name(#name, &[#(<#parameters as __stored::Decode>::shape(schema)),*]); };
    let (absent, [encode, decode, shape]) = match &data {
        Data::Struct(data) if words.transparent => {
            let members = Members::of(&data.fields, true)?;
            let [Some(member)] = &members.numbered[..] else {
                return Err(syn::Error::new(ident.span(), "a transparent struct has one field"));
            };
            let (pattern, value, ty) = (members.pattern(), &member.value, member.ty);
            let made = members.braces(|member| member.words.skip.clone().expect("it is one of the skipped"));
            let code = [
                quote! { let Self #pattern = self; __stored::Encode::encode(#value, out); },
                quote! { let #value: #ty = __stored::Decode::decode(from)?; ::core::result::Result::Ok(Self #made) },
                quote! { <#ty as __stored::Decode>::shape(schema) },
            ];
            let absent = [
                quote! { fn is_absent(&self) -> bool { let Self #pattern = self; __stored::Encode::is_absent(#value) } },
                quote! {
                    fn absent() -> ::core::option::Option<Self> {
                        let #value: #ty = __stored::Decode::absent()?;
                        ::core::option::Option::Some(Self #made)
                    }
                },
            ];
            (absent, code)
        }
        Data::Struct(data) => {
            let members = Members::of(&data.fields, false)?;
            let (pattern, write) = (members.pattern(), members.encode(&quote! { out.list(present); }));
            let read = members.decode(&quote! { Self }, words.lenient);
            let shapes = members.shapes();
            let code = [
                quote! { let Self #pattern = self; #write },
                quote! { let mut fields = __stored::FieldReader::of_struct(from)?; #read },
                quote! { #name schema.define::<Self>(&name, #path, |schema| __stored::Definition::Struct(#shapes)) },
            ];
            (Default::default(), code)
        }
        Data::Enum(data) => {
            let (mut writes, mut reads, mut shapes, mut numbers) =
                (Vec::new(), Vec::new(), Vec::new(), BTreeMap::new());
            for variant in &data.variants {
                let name = &variant.ident;
                let number = number(&variant.attrs, &format!("the variant `{name}`"), name.span())?;
                if numbers.insert(number, name).is_some() {
                    return Err(syn::Error::new(name.span(), format!("the number {number} is used twice")));
                }
                let members = Members::of(&variant.fields, false)?;
                let (pattern, write) = (members.pattern(), members.encode(&quote! { out.variant(#number, present); }));
                let read = members.decode(&quote! { Self::#name }, words.lenient);
                writes.push(quote! { Self::#name #pattern => { #write } });
                if Words::of(&variant.attrs)?.next {
                    reads.push(quote! { #number if __stored::reads_next() => { #read } });
                    continue;
                }
                reads.push(quote! { #number => { #read } });
                let (name, fields) = (name.to_string(), members.shapes());
                shapes.push(quote! { (#number, #name, #fields) });
            }
            let code = [
                quote! { match self { #(#writes)* } },
                quote! {
                    let (number, mut fields) = __stored::FieldReader::of_variant(from)?;
                    match number {
                        #(#reads)*
                        number => ::core::result::Result::Err(__stored::unknown_variant(number)),
                    }
                },
                quote! { #name schema.define::<Self>(&name, #path, |schema| __stored::Definition::Enum(__stored::variants([#(#shapes),*]))) },
            ];
            (Default::default(), code)
        }
        Data::Union(_) => return Err(syn::Error::new(ident.span(), "a union is not stored")),
    };
    let [is_absent, absent] = absent;
    let (impl_generics, type_generics, where_clause) = generics.split_for_impl();
    let core = if std::env::var("CARGO_PKG_NAME").is_ok_and(|name| name == "boxoffice-core") {
        quote! { crate }
    } else {
        quote! { ::boxoffice_core }
    };
    Ok(quote! {
        const _: () = {
            use #core::stored as __stored;

            #[automatically_derived]
            impl #impl_generics __stored::Encode for #ident #type_generics #where_clause {
                fn encode(&self, out: &mut __stored::Writer) { #encode }
                #is_absent
            }

            #[automatically_derived]
            impl #impl_generics __stored::Decode for #ident #type_generics #where_clause {
                fn decode(from: &mut __stored::Reader<'_>) -> ::core::result::Result<Self, __stored::Error> { #decode }
                #absent
                fn shape(schema: &mut __stored::Schema) -> __stored::Shape { #shape }
            }
        };
    })
}
