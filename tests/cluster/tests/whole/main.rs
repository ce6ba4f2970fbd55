//! Whole-system tests with processes of the real binary, over HTTP.
//!
//! Each module covers one promise. Each test starts its own cluster on its own ports, so tests run in parallel.

mod bad_input;
mod bootstrap;
mod clocks;
mod collector;
mod console;
mod damage;
mod disk_full;
mod every_call;
mod failover;
mod figures;
mod five;
mod flapping;
mod frozen;
mod http_api;
mod large_bodies;
mod late;
mod member_changes;
mod older_copy;
mod partition;
mod pause;
mod power_cut;
mod queue_streams;
mod recipes;
mod replacement;
mod restart;
mod retries;
mod sockets;
mod starved;
mod traces;
mod tree;
mod upgrade;
mod verify;
mod waits;
mod watch;
mod zookeeper;
