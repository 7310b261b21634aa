//! The whole program, one node of it as a child process, from outside. One executable, for it takes minutes to build several;
//! clusters (`cluster`, `nemesis`) have their own.

mod common;

mod calendar;
mod cinema;
mod currencies;
mod sale;
mod shop;
mod tickets;
mod times;

mod demo;
mod keys;
mod owners;
mod payments;

mod feeds;

mod bad_input;
mod races;
mod repeats;
mod transcripts;

mod crash;
mod descriptors;
mod web;
