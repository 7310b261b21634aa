//! The engine from outside: stories on one node, and clusters simulated from a seed.

mod dice;
mod directory;
mod disk;
mod history;
mod member;
mod moves;
mod simulation;
mod stories;
mod time;
mod world;
