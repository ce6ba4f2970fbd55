//! Tests of the order of outgoing items under concurrency, and of the rules of watches over a whole tree.

mod checker;
mod model;
mod node;
