//! The beginning and the end of the report: the command to repeat it, the machine, the systems, and failures.

use super::document::{Block, Table};
use super::figures::Figures;
use super::speed::two_holders;
use crate::catalogue::position;
use crate::machine::MachineInfo;
use crate::record::{RunInfo, RunSize, SystemInfo};

/// File systems in memory.
const IN_MEMORY: [&str; 2] = ["tmpfs", "ramfs"];

pub(super) fn beginning(figures: &Figures<'_>) -> Vec<Block> {
    let mut blocks = vec![Block::Title("Comparison with other locks".to_owned())];
    let size = figures.runs.iter().map(|run| run.size).min();
    blocks.extend(size.and_then(warning).map(|words| Block::Warning(words.to_owned())));
    if figures.runs.iter().any(|run| IN_MEMORY.contains(&run.machine.file_system.as_str())) {
        blocks.push(Block::Warning(
            "The servers kept their files in memory: synced data reached no disk. Name a directory on a disk with \
             `--directory`."
                .to_owned(),
        ));
    }
    blocks.extend(two_holders(figures));
    blocks
}

/// The date of the measurement, and the link to the other page.
pub(super) fn origin(figures: &Figures<'_>) -> Vec<Block> {
    let link =
        Block::Link("All plots and all cases".to_owned(), "comparison-plots.html".to_owned());
    origin_lines(figures).into_iter().chain([link]).collect()
}

/// The date, the commit and the command of each run.
pub(super) fn origin_lines(figures: &Figures<'_>) -> Vec<Block> {
    let mut runs: Vec<String> = figures.runs.iter().map(|run| origin_of(run)).collect();
    runs.dedup();
    runs.into_iter().map(Block::Text).collect()
}

fn origin_of(run: &RunInfo) -> String {
    let load = &run.machine.load;
    let load =
        if load.is_empty() { load.clone() } else { format!(" Load average before: {load}.") };
    format!(
        "Measured {} at commit {} by `{}`, all servers on one machine with {} cores: compare ratios, not absolute numbers.{load}",
        run.began, run.commit, run.command, run.machine.cores
    )
}

/// How to measure on servers of one's own.
const GIVEN: &str = "`scripts/compare speed --redis redis://HOST:PORT,redis://HOST:PORT` measures the locks on Redis on servers that \
     run already, and so do `fairness` and `writers`. `sentinel://HOST:PORT,HOST:PORT/NAME` in the list is the master of a group \
     behind Sentinel. RedLock uses all of the list, other locks the first. The other measurements kill their servers, and \
     start their own.";

/// How to repeat the measurement, the machine and the systems.
pub(super) fn setup(figures: &Figures<'_>) -> Vec<Block> {
    let mut blocks = vec![Block::Heading("How to repeat it".to_owned())];
    blocks.push(Block::Code(commands(figures)));
    blocks.push(Block::Text(GIVEN.to_owned()));
    blocks.push(Block::Heading("Machine".to_owned()));
    blocks.push(Block::Text(
        "The generator, the servers and their disks share one machine, so a number shows what they need together. Only the \
         servers of one kind run at a time. There is no network, so the cost of an additional round trip is not shown. Short windows \
         on one small machine show an order of magnitude; they do not replace a measurement on your own servers. `scripts/compare` \
         installs the distribution's packages, which can be older than the newest releases. With \
         `HOLDFAST_NEWEST_SERVERS=$(scripts/maintain/newest-servers)` it measures newer ZooKeeper and etcd servers."
            .to_owned(),
    ));
    blocks.push(Block::Table(machines(figures)));
    blocks.push(Block::Heading("Versions".to_owned()));
    blocks.push(Block::Table(systems(figures)));
    blocks
}

fn warning(size: RunSize) -> Option<&'static str> {
    match size {
        RunSize::Tiny => Some(
            "A trial of the tool: a few hundred milliseconds for each case. Its numbers are meaningless.",
        ),
        RunSize::Quick => Some(
            "A quick run: few systems, few clients, short windows, few repetitions. It is a first look, not a basis for \
             conclusions.",
        ),
        RunSize::Full => None,
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
        "# the rows do not contain the command".to_owned()
    } else {
        commands.join("\n")
    }
}

fn machines(figures: &Figures<'_>) -> Table {
    let mut table = Table::with(["", ""]);
    let mut seen: Vec<(&MachineInfo, &str)> = Vec::new();
    for run in &figures.runs {
        let known = seen.iter().any(|(machine, _)| alike(machine, &run.machine));
        if !known {
            seen.push((&run.machine, run.began.as_str()));
            describe(&mut table, run);
        }
    }
    table
}

/// Returns `true` if the machines are equal apart from the measured times.
fn alike(one: &MachineInfo, other: &MachineInfo) -> bool {
    let timeless = |machine: &MachineInfo| MachineInfo {
        sync_p50_us: 0,
        sync_p99_us: 0,
        load: String::new(),
        ..machine.clone()
    };
    timeless(one) == timeless(other)
}

fn describe(table: &mut Table, run: &RunInfo) {
    let machine = &run.machine;
    let sync = format!(
        "{} µs (p50), {} µs (p99) for 4 KiB written into an existing file",
        machine.sync_p50_us, machine.sync_p99_us
    );
    let rows = [
        ("measured", run.began.clone()),
        ("commit of holdfast", run.commit.clone()),
        ("processor", format!("`{}`, {} cores", machine.cpu, machine.cores)),
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

/// A row for each version and setting of servers, with the systems that were measured on them.
fn systems(figures: &Figures<'_>) -> Table {
    let mut found: Vec<(&SystemInfo, Vec<&str>)> = Vec::new();
    for info in infos(figures) {
        let same = |(one, _): &&mut (&SystemInfo, Vec<&str>)| {
            (one.nodes, &one.version, &one.durability)
                == (info.nodes, &info.version, &info.durability)
        };
        match found.iter_mut().find(same) {
            Some((_, systems)) => systems.push(&info.system),
            None => found.push((info, vec![&info.system])),
        }
    }
    let mut table = Table::with(["version", "servers of a lock", "durability", "systems"]);
    for (info, systems) in found {
        let (version, durability) = (info.version.clone(), info.durability.clone());
        table.add([version, info.nodes.to_string(), durability, systems.join(", ")]);
    }
    table
}

/// The systems, in the order of reports.
fn infos<'a>(figures: &Figures<'a>) -> Vec<&'a SystemInfo> {
    let mut infos: Vec<&SystemInfo> = figures.system_infos.values().copied().collect();
    infos.sort_by_key(|info| position(&info.system));
    infos
}

/// Failures.
pub(super) fn end(figures: &Figures<'_>) -> Vec<Block> {
    let mut blocks = vec![Block::Heading("Failures".to_owned())];
    if figures.failures.is_empty() {
        blocks.push(Block::Text("Every case was measured.".to_owned()));
    } else {
        let points = figures
            .failures
            .iter()
            .map(|(part, system, why)| format!("{part}, {system}: {}", one_line(why)));
        blocks.push(Block::List(points.collect()));
    }
    blocks
}

/// Formats a server's log as one line of limited length, without backticks.
fn one_line(why: &str) -> String {
    const LEN_MAX: usize = 400;
    let line = why.split_whitespace().collect::<Vec<_>>().join(" ").replace('`', "'");
    if line.chars().count() <= LEN_MAX {
        return line;
    }
    let begin: String = line.chars().take(LEN_MAX).collect();
    format!("{begin} …")
}
