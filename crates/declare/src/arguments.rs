//! The arguments of `#[op(…)]`: the name of the op, and its facts by word.

use std::collections::BTreeMap;

use proc_macro2::{Span, TokenStream};
use syn::{
    Ident, LitStr, Token,
    ext::IdentExt as _,
    parenthesized,
    parse::{Parse, ParseStream},
    punctuated::Punctuated,
    token::Paren,
};

use crate::facts;

/// A word, with what stands in its parentheses.
struct Argument {
    word: Ident,
    said: Option<TokenStream>,
}

impl Parse for Argument {
    fn parse(input: ParseStream<'_>) -> syn::Result<Argument> {
        let word = input.call(Ident::parse_any)?;
        let said = if input.peek(Paren) {
            let inner;
            parenthesized!(inner in input);
            Some(inner.parse()?)
        } else {
            None
        };
        Ok(Argument { word, said })
    }
}

/// What an op says of itself.
pub(crate) struct Arguments {
    pub(crate) name: LitStr,
    pub(crate) changes: bool,
    facts: BTreeMap<String, TokenStream>,
}

impl Arguments {
    /// What is said of a fact. Nothing if the op does not say it.
    pub(crate) fn fact(&self, word: &str) -> Option<&TokenStream> {
        self.facts.get(word)
    }

    /// A fact that every op says.
    pub(crate) fn needed(&self, word: &str) -> &TokenStream {
        self.fact(word).expect("facts that lack were refused")
    }
}

/// `changes` or `reads`, and the facts, of an op or of a group.
#[derive(Default)]
struct Said {
    changes: Option<bool>,
    facts: BTreeMap<String, TokenStream>,
}

impl Said {
    fn take(&mut self, op: &str, Argument { word, said }: Argument) -> syn::Result<()> {
        let name = word.to_string();
        let twice = || syn::Error::new(word.span(), format!("op `{op}` says `{name}` twice"));
        match (name.as_str(), said) {
            ("changes" | "reads", None) => match self.changes.replace(name == "changes") {
                Some(_) => Err(syn::Error::new(word.span(), format!("op `{op}` either `changes` or `reads`"))),
                None => Ok(()),
            },
            ("by_hand", None) => match self.facts.insert(name.clone(), TokenStream::new()) {
                Some(_) => Err(twice()),
                None => Ok(()),
            },
            (fact, Some(said)) if facts::is_fact(fact) && fact != "by_hand" => {
                match self.facts.insert(name.clone(), said) {
                    Some(_) => Err(twice()),
                    None => Ok(()),
                }
            }
            (fact, None) if facts::is_fact(fact) => Err(syn::Error::new(
                word.span(),
                format!("`{fact}` of op `{op}` has its value in parentheses: `{fact}(…)`"),
            )),
            (other, _) => {
                let known: Vec<&str> = facts::FACTS.iter().chain(&facts::FURTHER).map(|fact| fact.word).collect();
                let groups: Vec<&str> = facts::GROUPS.iter().map(|(name, _)| *name).collect();
                let (known, groups) = (known.join(", "), groups.join(", "));
                let words = format!("op `{op}` says `{other}`, which is no fact ({known}) and no group ({groups})");
                Err(syn::Error::new(word.span(), words))
            }
        }
    }
}

impl Parse for Arguments {
    fn parse(input: ParseStream<'_>) -> syn::Result<Arguments> {
        if !input.peek(LitStr) {
            return Err(syn::Error::new(input.span(), "an op begins with its name: `#[op(\"cart.get\", …)]`"));
        }
        let name: LitStr = input.parse()?;
        let op = name.value();
        if !input.is_empty() {
            input.parse::<Token![,]>()?;
        }
        let arguments = Punctuated::<Argument, Token![,]>::parse_terminated(input)?;
        let (mut own, mut of_groups) = (Said::default(), Said::default());
        for argument in arguments {
            match facts::of_group(&argument.word.to_string()).filter(|_| argument.said.is_none()) {
                Some(facts) => {
                    let parse = Punctuated::<Argument, Token![,]>::parse_terminated;
                    for argument in syn::parse::Parser::parse_str(parse, facts)? {
                        of_groups.take(&op, argument)?;
                    }
                }
                None => own.take(&op, argument)?,
            }
        }
        let mut facts = of_groups.facts;
        facts.extend(own.facts);
        let changes = own.changes.or(of_groups.changes);
        complete(&op, name.span(), changes, &facts)?;
        Ok(Arguments { name, changes: changes.expect("it was checked"), facts })
    }
}

/// Checks that every fact is said.
fn complete(op: &str, span: Span, changes: Option<bool>, facts: &BTreeMap<String, TokenStream>) -> syn::Result<()> {
    let lacks = |words: String| syn::Error::new(span, words);
    let effect = changes.is_none().then(|| lacks(format!("op `{op}` does not say whether it `changes` or `reads`")));
    let lacking = facts::FACTS.iter().filter(|fact| !facts.contains_key(fact.word));
    let lacking = lacking.map(|fact| lacks(format!("op `{op}` does not say `{}(…)`: {}", fact.word, fact.meaning)));
    let all = effect.into_iter().chain(lacking).reduce(|mut all, error| {
        all.combine(error);
        all
    });
    all.map_or(Ok(()), Err)
}
