//! The guards of MariaDB, SQLite, Redis, files and HTTP against the real stores: single calls, and searches through
//! interleavings of writers that are paused and resumed.

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "test code throughout")]

#[path = "../scratch/child_process.rs"]
mod child_process;
mod files;
mod http;
mod levels;
mod mariadb;
mod mariadb_levels;
mod model;
mod pausing;
mod redis;
mod redis_levels;
mod search;
mod servers;
mod slow_marks;
mod sqlite;
mod sqlite_levels;
