//! The calendar, the cluster's table, the directory and the encoding of commands. Carts and inventories are in `rules`.

mod calendar;
mod cluster;
mod commands;
mod directory;
