//! The commands that only talk to a cluster, and what every command of `holdfast` shares: arguments, output, exit codes
//! and signals. The binary adds the commands that start or repair a node.

pub mod arguments;
mod client_command;
mod commands;
pub mod dev;
pub mod exit;
pub mod hints;
pub mod new_file;
pub mod output;
pub mod owner_proof;
pub mod signals;
pub mod terminal_text;

pub use client_command::{ClientCommand, block_on, internal_command, without_empty_variables};
pub use commands::certs::create_missing;
pub use commands::lock_text::holder_name;
