//! Protocol v1: what is read and written, what is refused, and the documents that are made from it.

mod common;

mod bounds;
mod codes;
mod customer;
mod document;
mod fields;
mod golden;
mod keys;
mod layouts;
mod malformed;
mod random;
mod round_trip;
mod schema;
mod strict;
mod times;
mod version;
mod webhook;
