//! Protocol v1: frames in both directions, refusals, and the documents generated from them.

mod common;
mod page_tables;

mod bounds;
mod codes;
mod customer;
mod document;
mod fields;
mod frozen_ops;
mod frozen_refusals;
mod golden;
mod keys;
mod layouts;
mod malformed;
mod permission;
mod random;
mod round_trip;
mod schema;
mod strict;
mod times;
mod version;
mod webhook;
