//! Data directories and logs on disks that fail.

mod data_directory;
mod faults;
