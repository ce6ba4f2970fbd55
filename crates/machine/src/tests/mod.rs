//! Golden scripts, the model, the properties, and the proof that the checks find planted bugs.

mod render;
mod scripts;
mod snapshots;
mod words;
