//! The order of what goes out, under concurrency, and the rules of watches over a whole tree.

mod judge;
mod model;
mod node;
