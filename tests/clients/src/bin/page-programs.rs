//! `page-programs PLACE`: runs one Rust program of the pages, e.g. `docs/quick-start.md:112`. The build made their modules.

use std::process::ExitCode;

/// The programs of the pages, which are no part of this crate's interface.
#[expect(clippy::print_stdout, reason = "the programs of the pages print their results")]
#[expect(
    clippy::duration_suboptimal_units,
    clippy::type_complexity,
    reason = "the pages are for readers"
)]
mod programs {
    use std::process::Termination as _;

    include!(concat!(env!("OUT_DIR"), "/programs.rs"));
}

/// The node that the programs use instead of the one that the pages show.
fn node() -> String {
    std::env::var("HOLDFAST_ADDR").expect("HOLDFAST_ADDR has the address of a node")
}

fn main() -> ExitCode {
    let place = std::env::args().nth(1).unwrap_or_default();
    let program = programs::ALL.iter().find(|(name, _)| *name == place);
    let (_, run) = program.unwrap_or_else(|| panic!("no page has a Rust program at {place:?}"));
    run()
}
