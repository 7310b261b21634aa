//! End-to-end tests of the program with one node as a child process. They share one executable, because several take minutes to
//! build. Clusters (`cluster`, `nemesis`) have their own.

mod common;

mod calendar;
mod cinema;
mod codes;
mod currencies;
mod hours;
mod imports;
mod sale;
mod shop;
mod tickets;
mod times;

mod demo;
mod keys;
mod owners;
mod payments;
mod receipts;

mod feeds;

mod backups;
mod bad_input;
mod past;
mod races;
mod releases;
mod repeats;
mod transcripts;
mod verified;

mod attacks;
mod crash;
mod descriptors;
mod exports;
mod secrets;
mod terminal;
mod web;

mod load;
