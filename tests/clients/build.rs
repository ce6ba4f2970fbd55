//! Makes a module of each Rust program on the pages, so that `page-programs` can run it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

#[expect(unreachable_pub, reason = "it is a public module of the crate")]
#[path = "src/blocks.rs"]
mod blocks;

/// The programs name this node. They run with the node in `HOLDFAST_ADDR`.
const SHOWN_NODE: &str = "\"127.0.0.1:7400\"";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    println!("cargo::rerun-if-changed={}", root.join("docs").display());
    println!("cargo::rerun-if-changed=src/blocks.rs");
    let (mut modules, mut table) = (String::new(), String::new());
    for path in blocks::pages(&root)? {
        let page = path.strip_prefix(&root)?.display().to_string();
        for block in blocks::blocks(&std::fs::read_to_string(&path)?) {
            if block.info != "rust" {
                continue;
            }
            let module =
                format!("{}_{}", page.replace(|c: char| !c.is_alphanumeric(), "_"), block.line);
            let code = block
                .text
                .replace(SHOWN_NODE, "crate::node()")
                .replace("fn main(", "pub(super) fn main(");
            writeln!(modules, "mod {module} {{\n{code}}}")?;
            writeln!(table, "(\"{page}:{}\", || {module}::main().report()),", block.line)?;
        }
    }
    writeln!(
        modules,
        "pub(super) static ALL: &[(&str, fn() -> std::process::ExitCode)] = &[\n{table}];"
    )?;
    std::fs::write(PathBuf::from(std::env::var("OUT_DIR")?).join("programs.rs"), modules)?;
    Ok(())
}
