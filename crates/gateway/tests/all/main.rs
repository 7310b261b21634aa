//! The test gateway: its plans, and the program.

mod plan;
mod program;
