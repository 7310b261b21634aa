//! The test gateway: what it is told to do, and the program.

mod plan;
mod program;
