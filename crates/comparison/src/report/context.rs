//! The beginning of the report: what it may be believed for, how to repeat it, on what it was measured, and which systems.

use super::document::{Block, Table};
use super::figures::Figures;
use crate::catalogue::{Waiting, named, place};
use crate::machine::Machine;
use crate::record::{Run, Size};

/// File systems without a disk.
const IN_MEMORY: [&str; 2] = ["tmpfs", "ramfs"];

/// From the title to the systems.
pub(super) fn beginning(figures: &Figures<'_>) -> Vec<Block> {
    let mut blocks = vec![
        Block::Title("Comparison with other locks".to_owned()),
        Block::Text(
            "Written by `scripts/compare` from what it measured; do not edit. The same work under the locks that people \
             use today, each on its real servers, in speed, order, safety and failover: where the others are better, \
             this page says so and why."
                .to_owned(),
        ),
    ];
    let size = figures.runs.iter().map(|run| run.size).min();
    blocks.extend(size.and_then(warning).map(|words| Block::Warning(words.to_owned())));
    if figures.runs.iter().any(|run| IN_MEMORY.contains(&run.machine.file_system.as_str())) {
        blocks.push(Block::Warning(
            "The servers kept their files in memory: what they synced reached no disk. Name a directory on a disk with \
             `--directory`."
                .to_owned(),
        ));
    }
    blocks.push(Block::Link(
        "The page with plots and every case".to_owned(),
        "comparison.html".to_owned(),
    ));
    blocks.push(Block::Heading("How to repeat it".to_owned()));
    blocks.push(Block::Code(commands(figures)));
    blocks.push(Block::Heading("On what".to_owned()));
    blocks.push(Block::Text(
        "The generator, the servers and their disks share one machine, so a number says how much they need together; only \
         the servers of one kind run at a time. Nothing travels over a network: what one round trip more costs elsewhere, this page \
         does not show."
            .to_owned(),
    ));
    blocks.push(Block::Table(machines(figures)));
    blocks.push(Block::Heading("The systems".to_owned()));
    blocks.push(Block::Table(systems(figures)));
    blocks
}

fn warning(size: Size) -> Option<&'static str> {
    match size {
        Size::Tiny => Some(
            "A trial of the tool on a busy machine: a few hundred milliseconds for each case. Its numbers say nothing; \
             they show what the page looks like.",
        ),
        Size::Quick => Some(
            "A quick run: few systems, few clients, short windows, few repetitions. Good for a first look, not for \
             conclusions.",
        ),
        Size::Full => None,
    }
}

fn commands(figures: &Figures<'_>) -> String {
    let mut commands: Vec<String> = Vec::new();
    for run in &figures.runs {
        if !commands.contains(&run.command) {
            commands.push(run.command.clone());
        }
    }
    if commands.is_empty() {
        "# the rows do not say how they were made".to_owned()
    } else {
        commands.join("\n")
    }
}

fn machines(figures: &Figures<'_>) -> Table {
    let mut table = Table::with(["", ""]);
    let mut seen: Vec<(&Machine, &str)> = Vec::new();
    for run in &figures.runs {
        let known = seen.iter().any(|(machine, _)| alike(machine, &run.machine));
        if !known {
            seen.push((&run.machine, run.began.as_str()));
            describe(&mut table, run);
        }
    }
    table
}

/// The same but for what the disk happened to do.
fn alike(one: &Machine, other: &Machine) -> bool {
    let timeless =
        |machine: &Machine| Machine { sync_p50_us: 0, sync_p99_us: 0, ..machine.clone() };
    timeless(one) == timeless(other)
}

fn describe(table: &mut Table, run: &Run) {
    let machine = &run.machine;
    let sync = format!(
        "{} µs (p50), {} µs (p99) for 4 KiB into a file that is there already",
        machine.sync_p50_us, machine.sync_p99_us
    );
    let rows = [
        ("measured", run.began.clone()),
        ("commit of holdfast", run.commit.clone()),
        ("processor", format!("{}, {} cores", machine.cpu, machine.cores)),
        ("memory", format!("{} MiB", machine.memory_mib)),
        ("system", format!("{}, Linux {}", machine.system, machine.kernel)),
        ("file system of the servers", machine.file_system.clone()),
        ("`fdatasync`", sync),
    ];
    for (name, value) in rows {
        table.add([name.to_owned(), value]);
    }
    for (name, value) in &run.settings {
        table.add([name.clone(), value.clone()]);
    }
}

fn systems(figures: &Figures<'_>) -> Table {
    let mut table =
        Table::with(["system", "servers asked", "version", "what is acknowledged is", "waiters"]);
    let mut abouts: Vec<_> = figures.abouts.values().collect();
    abouts.sort_by_key(|about| place(&about.system));
    for about in abouts {
        let waiting = named(&about.system).map_or("", |listed| match listed.waiting {
            Waiting::Polls => "ask again and again",
            Waiting::Told => "are told, and ask then",
            Waiting::Answered => "are answered when it is their turn",
        });
        table.add([
            about.system.clone(),
            about.nodes.to_string(),
            about.version.clone(),
            about.durability.clone(),
            waiting.to_owned(),
        ]);
    }
    table
}

/// The end: what could not be measured, and what each system cannot do.
pub(super) fn end(figures: &Figures<'_>) -> Vec<Block> {
    let mut blocks = vec![Block::Heading("What could not be measured".to_owned())];
    if figures.troubles.is_empty() {
        blocks.push(Block::Text("Everything that was asked for was measured.".to_owned()));
    } else {
        let points = figures
            .troubles
            .iter()
            .map(|(part, system, why)| format!("{part}, {system}: {}", one_line(why)));
        blocks.push(Block::List(points.collect()));
    }
    blocks.push(Block::Heading("What each of them cannot do".to_owned()));
    blocks.push(Block::Text(
        "As documented beside its adapter in `crates/clients`, each point with a test that shows it on the real server. A \
         fence, where a system has none, is what keeps a late write of a holder out."
            .to_owned(),
    ));
    let mut table = Table::with(["system", "cannot"]);
    let mut abouts: Vec<_> = figures.abouts.values().collect();
    abouts.sort_by_key(|about| place(&about.system));
    for about in abouts {
        table.add([about.system.clone(), about.limitations.join("; ")]);
    }
    blocks.push(Block::Table(table));
    blocks
}

/// A server's log in one line, not too long, and without what would be code.
fn one_line(why: &str) -> String {
    const LONG: usize = 400;
    let line = why.split_whitespace().collect::<Vec<_>>().join(" ").replace('`', "'");
    if line.chars().count() <= LONG {
        return line;
    }
    let begin: String = line.chars().take(LONG).collect();
    format!("{begin} …")
}
