//! The calendar, the cluster, the directory and what travels between nodes. Carts and inventories are in `rules`.

mod calendar;
mod cluster;
mod commands;
mod directory;
