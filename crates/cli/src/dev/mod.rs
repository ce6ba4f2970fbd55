//! `holdfast dev`: a whole cluster on this machine.
//!
//! The nodes are ordinary `serve` processes with ordinary configuration files. The supervisor
//! reports a dead node and does not restart it by itself, so failures are visible. `layout` has the directories, ports
//! and files, `supervisor` starts and stops the processes. `input` reads keys and lines and translates them to commands, and
//! `console` applies them. The output when the cluster is ready is here. Scripts wait for its last line: `ready http://...`.

mod console;
mod input;
mod layout;
mod node_log;
mod secure;
mod supervisor;

pub use layout::{DevDataDir, DevTls, Layout};
pub use supervisor::DevCluster;

use std::path::PathBuf;
use std::time::Duration;

use crate::exit::CommandFailure;
use crate::new_file::write_file;
use crate::output::{cell, print, table};
use crate::owner_proof::OwnerProof;
use crate::signals::StopSignals;
use crate::terminal_text::Tone;
use clap::Args;
use holdfast_api::{ClusterBody, IssuedTokenBody};
use holdfast_client::Client;
use serde_json::Map;

use self::console::DevConsole;
use self::input::{DevCommand, DevInputs};
use self::secure::SecureFiles;

/// The time limit for the nodes to start and elect a leader.
pub const START_TIMEOUT: Duration = Duration::from_secs(30);

/// Start a whole cluster on this machine, for development.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Keys on a terminal: 1 to 5 select a node; k kills it, p pauses or resumes it (SIGSTOP, SIGCONT),\n\
                  r restarts it with its data and ports; ? prints the keys; q or ^C stops all nodes."
)]
pub struct DevArgs {
    /// The number of nodes: 1, 3 or 5. The default is the number of nodes in --data, or 3.
    #[arg(long, value_name = "N", value_parser = node_count)]
    nodes: Option<u64>,
    /// The directory of the data, which is kept; by default a temporary directory that is removed at the end.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Node n serves HTTP on PORT + 10(n-1), its peers on the next port, and ZooKeeper clients on the one after.
    #[arg(long, value_name = "PORT", default_value_t = 7400, value_parser = clap::value_parser!(u16).range(1024..))]
    port: u16,
    /// The level of the logs of the nodes in node.log.
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log_level: String,
    /// Use TLS on all ports, and add an administrator, whose access token every call needs. Prints calls with both.
    #[arg(long)]
    secure: bool,
    /// Read commands from stdin, one a line: kill N, pause N, resume N, restart N, help, stop.
    #[arg(long)]
    commands: bool,
}

fn node_count(text: &str) -> Result<u64, String> {
    match text {
        "1" | "3" | "5" => text.parse().map_err(|_| String::new()),
        "2" | "4" => {
            Err(format!("{text} nodes survive no more failures than one node less: use 1, 3 or 5"))
        }
        other => Err(format!("{other} is not a number of nodes: use 1, 3 or 5")),
    }
}

/// Runs a development cluster until ^C or SIGTERM.
///
/// # Errors
/// [`CommandFailure::Failed`] if it does not start, or if all nodes have died.
pub fn run(args: &DevArgs) -> Result<(), CommandFailure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(CommandFailure::failed)?;
    runtime.block_on(supervise(args))
}

async fn supervise(args: &DevArgs) -> Result<(), CommandFailure> {
    // The handlers precede the nodes, so that a signal during the start stops the nodes.
    let mut signals = StopSignals::install().map_err(CommandFailure::failed)?;
    let data = DevDataDir::open(args.data.as_deref()).map_err(CommandFailure::Failed)?;
    let layout = Layout::new(&data, args.nodes, args.port, &args.log_level)
        .map_err(CommandFailure::Failed)?;
    let layout = if args.secure { layout.with_tls(DevTls::All) } else { layout };
    let mut cluster = DevCluster::start(layout).map_err(CommandFailure::Failed)?;
    let ready = tokio::select! {
        ready = ready(&mut cluster) => Some(ready),
        _ = signals.next() => None,
    };
    let end = match ready {
        None => Ok(()),
        Some(Err(reason)) => Err(CommandFailure::Failed(reason)),
        Some(Ok(view)) => {
            print(&announce(&view, &cluster, data.is_temporary()));
            watch(&mut cluster, &mut signals, args.commands).await
        }
    };
    cluster.stop().await;
    drop(data);
    end
}

/// Waits for the nodes. A secure cluster then gets its administrator, at its first start.
async fn ready(cluster: &mut DevCluster) -> Result<ClusterBody, String> {
    let view = cluster.wait_ready(START_TIMEOUT).await?;
    if let Some(secure) = cluster.layout().security() {
        add_administrator(cluster.layout(), &secure).await?;
    }
    Ok(view)
}

/// Adds the administrator of a secure cluster, unless an earlier start did, and keeps its access token.
pub(super) async fn add_administrator(layout: &Layout, files: &SecureFiles) -> Result<(), String> {
    if files.token.exists() {
        return Ok(());
    }
    let token = first_administrator(layout).await?;
    let header = format!("Authorization: Bearer {token}\n");
    write_file(&files.token, &header, 0o600).map_err(|error| error.to_string())
}

/// Adds the first administrator through the first node, and returns the access token.
pub async fn first_administrator(layout: &Layout) -> Result<String, String> {
    let endpoint = layout.http(1).to_string();
    let client = match layout.security() {
        Some(files) => files.client(&endpoint)?,
        None => Client::builder([endpoint]).build().map_err(|error| error.to_string())?,
    };
    let proof = OwnerProof::write(&layout.data_dir(1)).map_err(|error| error.to_string())?;
    let call = proof.call("/v1/auth/bootstrap", Map::new());
    let issued = client.call::<IssuedTokenBody>(&call).await;
    Ok(issued.map_err(|error| error.to_string())?.token)
}

/// Reports events and applies commands, until a stop command or a signal. Without input, the end of all nodes is a
/// failure.
async fn watch(
    cluster: &mut DevCluster,
    signals: &mut StopSignals,
    lines: bool,
) -> Result<(), CommandFailure> {
    let nodes = cluster.layout().ids().max().unwrap_or(1);
    let mut inputs = if lines { DevInputs::lines(nodes) } else { DevInputs::keys(nodes) };
    let mut console = DevConsole::new(cluster, START_TIMEOUT);
    if inputs.is_open() {
        console.print(Tone::Plain, &inputs.help());
    }
    loop {
        tokio::select! {
            event = console.next() => console.handle(&event),
            command = inputs.next() => match command {
                Ok(Some(DevCommand::Stop)) => return Ok(()),
                Ok(Some(DevCommand::Help)) => console.print(Tone::Plain, &inputs.help()),
                Ok(Some(DevCommand::Change(change, node))) => console.change(change, node).await,
                // The end of the input.
                Ok(None) => {}
                Err(reason) => console.print(Tone::Attention, &reason),
            },
            _ = signals.next() => return Ok(()),
        }
        if !console.has_nodes() && !inputs.is_open() {
            return Err(CommandFailure::failed(
                "all nodes have ended; the last lines of their logs have the reason",
            ));
        }
    }
}

/// The table of nodes, the variables that other commands need, example calls, and the ready line.
fn announce(view: &ClusterBody, cluster: &DevCluster, temporary: bool) -> String {
    let rows = view.nodes.iter().map(|node| {
        [
            node.id.to_string(),
            cell(cluster.pid(node.id.0)),
            node.role.clone(),
            node.http.clone(),
            node.peer.clone(),
            node.zookeeper.clone(),
        ]
    });
    let nodes = table(["node", "pid", "role", "http", "peer", "zookeeper"], rows);
    let layout = cluster.layout();
    let addresses: Vec<&str> = view.nodes.iter().map(|node| node.http.as_str()).collect();
    let exports = exports(&addresses, layout.security().as_ref());
    let scheme = if layout.security().is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{}", layout.http(1));
    let calls = calls(&url, layout.security().as_ref());
    let kept = if temporary { "removed at the end; keep it with --data DIR" } else { "kept" };
    let dir = layout.dir().display();
    let zookeeper = match layout.security() {
        None => {
            let addresses: Vec<_> = view.nodes.iter().map(|node| node.zookeeper.as_str()).collect();
            format!("zkCli.sh -server {}\n", addresses.join(","))
        }
        // zkCli.sh needs a Java key store for TLS.
        Some(_) => String::new(),
    };
    format!(
        "{nodes}\n\n{exports}\n{calls}{zookeeper}\ndata and logs: {dir} ({kept}); stop with ^C\nready {url}"
    )
}

/// The variables with which the other commands find this cluster.
fn exports(addresses: &[&str], security: Option<&SecureFiles>) -> String {
    let address = format!("export HOLDFAST_ADDR={}\n", addresses.join(","));
    let Some(secure) = security else { return address };
    let (ca, token) = (secure.ca(), &secure.token);
    format!(
        "{address}export HOLDFAST_CACERT={}\nexport HOLDFAST_ACCESS_TOKEN_FILE={}\n",
        ca.display(),
        token.display()
    )
}

/// Calls for a shell. They name one session and one attempt, so that a repeated call never acquires a lost lock again.
fn calls(url: &str, security: Option<&SecureFiles>) -> String {
    let curl = match security {
        None => "curl",
        Some(_) => "curl --cacert $HOLDFAST_CACERT -H @$HOLDFAST_ACCESS_TOKEN_FILE",
    };
    let lock = format!("{url}/v1/locks/orders");
    format!(
        "ME=\"session=me-$(date +%s)&attempt=1\"   # a session of your own\n\
         {curl} -X PUT    \"{lock}?$ME&wait=10s\"   # queue and acquire; JSON with \"token\"\n\
         {curl} -X PUT    \"{lock}?$ME\"            # renew; 409 or 410 if the lock is lost\n\
         {curl}           \"{lock}\"                # holders and queue\n\
         {curl} -X DELETE \"{lock}?$ME\"            # release\n"
    )
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::FromArgMatches as _;

    use super::*;

    fn parse(line: &str) -> Result<DevArgs, String> {
        let command = DevArgs::augment_args(clap::Command::new("dev"));
        let matches = command.try_get_matches_from(line.split(' '));
        let matches = matches.map_err(|error| error.to_string())?;
        DevArgs::from_arg_matches(&matches).map_err(|error| error.to_string())
    }

    #[test]
    fn dev_accepts_one_three_or_five_nodes() {
        let args = parse("dev --nodes 5 --port 8400").unwrap();
        assert_eq!((args.nodes, args.port), (Some(5), 8400));
        assert!(parse("dev --nodes 4").unwrap_err().contains("use 1, 3 or 5"));
        assert!(parse("dev --nodes 0").unwrap_err().contains("use 1, 3 or 5"));
    }

    #[test]
    fn another_shell_gets_the_variables_and_calls_of_the_cluster() {
        let secure = SecureFiles::new(Path::new("/data"));
        let shown = exports(&["127.0.0.1:8400", "127.0.0.1:8410"], Some(&secure));
        assert_eq!(
            shown,
            "export HOLDFAST_ADDR=127.0.0.1:8400,127.0.0.1:8410\nexport HOLDFAST_CACERT=/data/pki/ca.pem\n\
             export HOLDFAST_ACCESS_TOKEN_FILE=/data/admin.token\n"
        );
        assert_eq!(exports(&["127.0.0.1:8400"], None), "export HOLDFAST_ADDR=127.0.0.1:8400\n");
        let calls = calls("https://127.0.0.1:8400", Some(&secure));
        assert_eq!(calls.matches("--cacert $HOLDFAST_CACERT").count(), 4);
        assert_eq!(calls.matches("?$ME").count(), 3);
    }
}
