//! The command line of `holdfast tree` and `holdfast watch`.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::{Target, duration};

/// `holdfast tree`.
#[derive(Debug, Subcommand)]
pub(crate) enum TreeCommand {
    /// Print a node's data, as it is.
    Get(NodeArgs),
    /// Show a node's stat.
    Stat(NodeArgs),
    /// List a node's children.
    Ls(TreeLsArgs),
    /// Create a node; print its path.
    Create(CreateArgs),
    /// Replace the data of a node that exists.
    Set(SetArgs),
    /// Delete a node.
    Rm(RmArgs),
}

/// A node of the tree.
#[derive(Debug, Args)]
pub(crate) struct NodeArgs {
    /// Its path; the first '/' may be missing.
    pub(crate) path: String,
    /// Who you are, for nodes with access lists.
    #[arg(long, env = "HOLDFAST_USER", value_name = "NAME:PASSWORD", hide_env_values = true)]
    pub(crate) user: Option<String>,
    /// Where to ask.
    #[command(flatten)]
    pub(crate) target: Target,
}

/// `holdfast tree ls`.
#[derive(Debug, Args)]
pub(crate) struct TreeLsArgs {
    /// With everything below.
    #[arg(short, long)]
    pub(crate) recursive: bool,
    /// Which node.
    #[command(flatten)]
    pub(crate) node: NodeArgs,
}

/// `holdfast tree create`.
#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// Which node.
    #[command(flatten)]
    pub(crate) node: NodeArgs,
    /// Its data; '-' reads it from stdin.
    #[arg(default_value = "")]
    pub(crate) data: String,
    /// Append the directory's next number to the name.
    #[arg(long)]
    pub(crate) sequential: bool,
    /// Create missing directories as well.
    #[arg(short, long)]
    pub(crate) parents: bool,
    /// Let it go with this session, which must be open.
    #[arg(long, value_name = "SESSION", conflicts_with_all = ["container", "ttl"])]
    pub(crate) ephemeral: Option<String>,
    /// Let it go when its last child has gone.
    #[arg(long, conflicts_with = "ttl")]
    pub(crate) container: bool,
    /// Let it go when it has no children and was not changed for so long.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) ttl: Option<Duration>,
    /// Who may do what with it; may be given several times.
    #[arg(long, value_name = "SCHEME:ID:PERMS")]
    pub(crate) acl: Vec<String>,
}

/// `holdfast tree set`.
#[derive(Debug, Args)]
pub(crate) struct SetArgs {
    /// Which node.
    #[command(flatten)]
    pub(crate) node: NodeArgs,
    /// Its new data; '-' reads it from stdin.
    pub(crate) data: String,
    /// Only if it has this version.
    #[arg(long, value_name = "N")]
    pub(crate) version: Option<u32>,
}

/// `holdfast tree rm`.
#[derive(Debug, Args)]
pub(crate) struct RmArgs {
    /// With everything below.
    #[arg(short, long)]
    pub(crate) recursive: bool,
    /// Only if it has this version.
    #[arg(long, value_name = "N")]
    pub(crate) version: Option<u32>,
    /// Which node.
    #[command(flatten)]
    pub(crate) node: NodeArgs,
}

/// `holdfast watch`.
#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    /// Paths that begin so: '/cfg/' for what lies below, '/' for everything. A lock is '/locks/NAME'.
    pub(crate) prefix: String,
    /// What changed after this revision as well; without it, from now on.
    #[arg(long, value_name = "REVISION")]
    pub(crate) since: Option<u64>,
    /// End after so many changes.
    #[arg(long, value_name = "N")]
    pub(crate) count: Option<u64>,
    /// Who you are, for nodes with access lists.
    #[arg(long, env = "HOLDFAST_USER", value_name = "NAME:PASSWORD", hide_env_values = true)]
    pub(crate) user: Option<String>,
    /// Where to ask.
    #[command(flatten)]
    pub(crate) target: Target,
}
