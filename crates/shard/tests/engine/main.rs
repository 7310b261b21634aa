//! The engine from outside: stories on one node, and clusters simulated from a seed.

mod dice;
mod directory;
mod disk;
mod history;
mod member;
mod simulation;
mod moves;
mod stories;
mod world;
