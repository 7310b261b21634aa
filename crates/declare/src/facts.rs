//! The facts that every op says, and the groups that say them for several.

/// A fact: its word, and what it is, for the message of an op that lacks it.
pub(crate) struct Fact {
    pub(crate) word: &'static str,
    pub(crate) meaning: &'static str,
}

/// The facts of an op besides `changes` or `reads`. Each op says all of them.
pub(crate) const FACTS: [Fact; 11] = [
    Fact { word: "roles", meaning: "the roles of which a caller needs one" },
    Fact { word: "owner", meaning: "whose data it reads or changes" },
    Fact { word: "venues", meaning: "what the venues of a limited key mean for it" },
    Fact { word: "batch", meaning: "whether it may be an item of a batch" },
    Fact { word: "class", meaning: "the class in which its head may be shed" },
    Fact { word: "pace", meaning: "whether clients wait before they send it to an overloaded node" },
    Fact { word: "unknown", meaning: "whether fields that no node knows are refused or ignored" },
    Fact { word: "frame", meaning: "how long its frames may be" },
    Fact { word: "http", meaning: "the methods of its path" },
    Fact { word: "weight", meaning: "the processor time of its smallest request over that of `cart.get`" },
    Fact { word: "answers", meaning: "the bodies of its ok answers" },
];

/// Facts that an op says only if it is so.
pub(crate) const FURTHER: [Fact; 4] = [
    Fact { word: "or", meaning: "the callers that may use it without its roles" },
    Fact { word: "since", meaning: "the version of the protocol that has brought it" },
    Fact { word: "examples_need", meaning: "what its examples need that a fresh node does not have" },
    Fact { word: "by_hand", meaning: "that it reads its body itself" },
];

/// The groups, with the facts that they say.
pub(crate) const GROUPS: [(&str, &str); 7] = [
    // Reads that an overloaded node refuses first. Those of the offer say no more, and others say whose data they read.
    (
        "read",
        "reads, roles(Watch), owner(Unowned), venues(Unlimited), batch(Item), class(Read), pace(AtOnce), unknown(Ignored),
         frame(Plain), http(PostAndGet)",
    ),
    // Changes of the offer by the house. Each says what the venues of a limited key mean.
    (
        "desk",
        "changes, roles(Desk), owner(Unowned), batch(Item), class(Later), pace(AtOnce), unknown(Refused), frame(Plain),
         http(Post)",
    ),
    // Holds, which open the cart of their token if it does not exist.
    (
        "hold",
        "changes, roles(Sell), owner(CartTokenAndCustomer), venues(OfLinesAsked), batch(Item), class(Begin),
         pace(Limited), unknown(Refused), frame(Plain), http(Post)",
    ),
    // Changes of a cart that exists. Each says what the venues of a limited key mean.
    (
        "cart",
        "changes, roles(Sell), owner(CartToken), batch(Item), class(Later), pace(AtOnce), unknown(Refused), frame(Plain),
         http(Post)",
    ),
    // What is about the connection.
    (
        "connection",
        "reads, owner(Unowned), venues(Unlimited), batch(Alone), class(Later), pace(AtOnce), unknown(Ignored), frame(Plain),
         http(None)",
    ),
    // What operators read.
    (
        "inside",
        "reads, owner(Unowned), class(Later), pace(AtOnce), unknown(Ignored), frame(Plain), http(PostAndGet)",
    ),
    // Changes of the cluster and of its keys.
    (
        "cluster",
        "changes, roles(Admin), owner(Unowned), venues(Refused), batch(Item), class(Later), pace(AtOnce),
         unknown(Refused), frame(Plain), http(Post)",
    ),
];

/// Whether the word is one of a fact.
pub(crate) fn is_fact(word: &str) -> bool {
    FACTS.iter().chain(&FURTHER).any(|fact| fact.word == word)
}

/// The facts that a group says.
pub(crate) fn of_group(word: &str) -> Option<&'static str> {
    GROUPS.iter().find(|(name, _)| *name == word).map(|(_, facts)| *facts)
}
