//! The engine from outside: single nodes step by step, and clusters simulated from a seed.

mod directory;
mod disk;
mod elections;
mod history;
mod member;
mod moves;
mod network;
mod rng;
mod simulation;
mod stories;
mod time;
mod world;
