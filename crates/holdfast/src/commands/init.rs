//! `holdfast init`: an operator's permission for a new cluster. It writes a file, and calls no node.

use std::path::PathBuf;

use clap::Args;
use holdfast_cli::exit::CommandFailure;
use holdfast_cli::output;

/// Permit one node with an empty data directory to create a new cluster.
#[derive(Debug, Args)]
#[command(
    after_help = "Run it once, for one node of a new cluster, before or after its start. Never run it when a cluster has lost its data \
                  directories: bring them back, or restore a backup."
)]
pub(crate) struct InitArgs {
    /// The data directory of the node.
    #[arg(long, env = "HOLDFAST_DATA_DIR", value_name = "DIR")]
    data_dir: PathBuf,
}

/// Writes the file.
///
/// # Errors
/// [`CommandFailure::Failed`] if the directory belongs to a cluster, or cannot be written.
pub(crate) fn run(args: &InitArgs) -> Result<(), CommandFailure> {
    holdfast_raft::permit_new_cluster(&args.data_dir).map_err(CommandFailure::failed)?;
    output::print("the node may create a new cluster: it does so when all members run");
    Ok(())
}
