//! The commands that change members: their arguments and calls, and the progress of a change as lines on stderr.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use holdfast_api::parameters::member;
use holdfast_api::{ClusterBody, InvitedMemberBody, Query};
use holdfast_client::http::Method;
use holdfast_client::{Call, Client, Copies, Error};
use holdfast_types::{Address, NodeId, Reason, VotingRole, Zone};

use super::node_id;
use crate::arguments::{ClusterArgs, Format, duration};
use crate::commands::calls;
use crate::exit::CommandFailure;
use crate::new_file::{Existing, NewFile};
use crate::output::{answer, check_complete, write_stderr};

/// How long `remove`, `promote` and `demote` wait for the end of the change.
const WAIT_DEFAULT: &str = "1m";
/// The time between two reads of the cluster. Only a change prints a line.
const INTERVAL: Duration = Duration::from_millis(500);
/// Without an answer for this long, the wait ends.
const SILENCE_MAX: Duration = Duration::from_secs(15);

/// How a change is made.
#[derive(Debug, Args)]
pub(crate) struct ChangeArgs {
    /// Also make a change after which the cluster survives fewer failures.
    #[arg(long)]
    force: bool,
    /// Only check the change, and propose nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// The addresses of a new member.
#[derive(Debug, Args)]
pub(crate) struct NewMemberArgs {
    /// The address for other nodes.
    #[arg(long, value_name = "HOST:PORT", value_parser = Address::parse)]
    peer: Address,
    /// The address for HTTP clients.
    #[arg(long, value_name = "HOST:PORT", value_parser = Address::parse)]
    http: Address,
    /// The address for ZooKeeper clients.
    #[arg(long, value_name = "HOST:PORT", value_parser = Address::parse)]
    zookeeper: Address,
    /// The failure domain, such as a rack.
    #[arg(long)]
    zone: Option<Zone>,
    /// Write the join token into a new file that only its owner can read.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Wait until the new member has its role.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    wait: Option<Duration>,
}

/// The role of a new member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RoleArg {
    Voter,
    Learner,
    /// Replaces a voter that does not answer for `raft.replace_after`.
    Standby,
}

/// Invite a new member.
#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    #[command(flatten)]
    new: NewMemberArgs,
    /// Whether the new member votes. The default is the role of the replaced member, or voter.
    #[arg(long, value_enum)]
    role: Option<RoleArg>,
    #[command(flatten)]
    change: ChangeArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ReplaceArgs {
    /// The member that leaves.
    #[arg(value_name = "ID", value_parser = node_id)]
    old: NodeId,
    #[command(flatten)]
    add: AddArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    /// The member.
    #[arg(value_name = "ID", value_parser = node_id)]
    node: NodeId,
    /// The reason, for the audit trail and the log of the removed node.
    #[arg(long)]
    reason: Reason,
    /// How long to wait for the end of the change.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = WAIT_DEFAULT)]
    wait: Duration,
    #[command(flatten)]
    change: ChangeArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PromoteArgs {
    /// A voter that leaves in the same step. It may be dead.
    #[arg(long, value_name = "ID", value_parser = node_id)]
    replace: Option<NodeId>,
    #[command(flatten)]
    role: RoleArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DemoteArgs {
    /// Make it a standby, which replaces a voter that does not answer.
    #[arg(long)]
    standby: bool,
    #[command(flatten)]
    role: RoleArgs,
}

/// Change the role of a member.
#[derive(Debug, Args)]
pub(crate) struct RoleArgs {
    /// The member.
    #[arg(value_name = "ID", value_parser = node_id)]
    node: NodeId,
    /// How long to wait for the end of the change.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = WAIT_DEFAULT)]
    wait: Duration,
    #[command(flatten)]
    change: ChangeArgs,
}

#[derive(Debug, Args)]
pub(crate) struct SetArgs {
    /// The member.
    #[arg(value_name = "ID", value_parser = node_id)]
    node: NodeId,
    /// The new address for other nodes.
    #[arg(long, value_name = "HOST:PORT", value_parser = Address::parse)]
    peer: Option<Address>,
    /// The new address for HTTP clients.
    #[arg(long, value_name = "HOST:PORT", value_parser = Address::parse)]
    http: Option<Address>,
    /// The new address for ZooKeeper clients.
    #[arg(long, value_name = "HOST:PORT", value_parser = Address::parse)]
    zookeeper: Option<Address>,
    /// The new failure domain.
    #[arg(long)]
    zone: Option<Zone>,
    #[command(flatten)]
    change: ChangeArgs,
}

impl ChangeArgs {
    fn query(&self) -> Query {
        let query = Query::default().with_flag(&member::FORCE, self.force);
        query.with_flag(&member::DRY_RUN, self.dry_run)
    }

    /// Sends a change without a result, and waits until it is finished.
    async fn send(
        &self,
        method: Method,
        node: NodeId,
        query: Query,
        wait: Option<Duration>,
    ) -> Result<(), CommandFailure> {
        let client = self.cluster.client()?;
        // A removed id is never used again, so a late copy of its removal has no effect.
        let is_unique = method == Method::DELETE;
        let call = Call::new(method, query.target(&format!("/v1/members/{node}")));
        if is_unique || self.dry_run {
            client.call_raw(&call).await?;
        } else {
            calls::send_also_sealed(&client, call).await?;
        }
        if self.dry_run {
            write_stderr("the checks passed; nothing was changed");
            return Ok(());
        }
        match wait {
            Some(wait) => wait_until_finished(&client, node, wait).await,
            None => Ok(()),
        }
    }
}

impl AddArgs {
    pub(super) async fn run(&self, replaces: Option<NodeId>) -> Result<(), CommandFailure> {
        // Before the invitation exists, so that its token is not lost.
        let existing = Existing::Kept { advice: "name a new file" };
        let out = self.new.out.as_deref();
        let out = out.map(|path| NewFile::secret(path, existing)).transpose()?;
        let NewMemberArgs { peer, http, zookeeper, zone, .. } = &self.new;
        let role = self.role.map(|role| match role {
            RoleArg::Voter => VotingRole::Voter,
            RoleArg::Learner => VotingRole::Learner,
            RoleArg::Standby => VotingRole::Standby,
        });
        let query = self
            .change
            .query()
            .with(&member::PEER, peer)
            .with(&member::HTTP, http)
            .with(&member::ZOOKEEPER, zookeeper)
            .with_some(&member::ZONE, zone.as_ref())
            .with_some(&member::ROLE, role.as_ref())
            .with_some(&member::REPLACES, replaces.as_ref());
        let client = self.change.cluster.client()?;
        let call = Call::new(Method::POST, query.target("/v1/members")).copies(Copies::Never);
        let response = if self.change.dry_run {
            client.call_raw(&call).await?
        } else {
            calls::send_also_sealed(&client, call).await?
        };
        let body = response.json();
        let body: InvitedMemberBody =
            body.map_err(|error| Error::UnexpectedResponse(error.to_string()))?;
        if let (Some(node), Some(token)) = (body.id, &body.join_token) {
            return self.show(&client, &body, node, token, out).await;
        }
        answer(self.change.cluster.format(), &body, "", "the checks passed; nothing was changed");
        Ok(())
    }

    async fn show(
        &self,
        client: &Client,
        body: &InvitedMemberBody,
        node: NodeId,
        token: &str,
        out: Option<NewFile>,
    ) -> Result<(), CommandFailure> {
        let file = self
            .new
            .out
            .as_ref()
            .map_or(format!("node-{node}.join"), |out| out.display().to_string());
        let cancel = format!("cancel the invitation: holdfast member remove {node} --reason TEXT");
        let next = format!(
            "within one hour:\n\n  holdfast join {file} --config node.toml --data-dir DIR\n  holdfast serve --config node.toml"
        );
        if let Some(mut out) = out {
            let written = out.write(format!("{token}\n").as_bytes()).and_then(|()| out.publish());
            written.map_err(|error| CommandFailure::failed(format!("{error}; {cancel}")))?;
            write_stderr(&format!(
                "node {node} is invited. Copy {file} to its machine, and run there, {next}"
            ));
            let format = self.change.cluster.format();
            if format != Format::Table {
                let shown = InvitedMemberBody { join_token: None, ..body.clone() };
                answer(format, &shown, node, "");
            }
        } else {
            let text = format!(
                "node {node} is invited. Save the last line as {file} on its machine, and run there, {next}\n\n{token}"
            );
            answer(self.change.cluster.format(), body, token, &text);
            check_complete().inspect_err(|_| write_stderr(&format!("holdfast: {cancel}")))?;
        }
        match self.new.wait {
            Some(wait) => wait_until_finished(client, node, wait).await,
            None => Ok(()),
        }
    }
}

impl ReplaceArgs {
    pub(super) async fn run(&self) -> Result<(), CommandFailure> {
        self.add.run(Some(self.old)).await
    }
}

impl RemoveArgs {
    pub(super) async fn run(&self) -> Result<(), CommandFailure> {
        let query = self.change.query().with(&member::REASON, &self.reason);
        self.change.send(Method::DELETE, self.node, query, Some(self.wait)).await
    }
}

impl PromoteArgs {
    pub(super) async fn run(&self) -> Result<(), CommandFailure> {
        self.role.run(VotingRole::Voter, self.replace).await
    }
}

impl DemoteArgs {
    pub(super) async fn run(&self) -> Result<(), CommandFailure> {
        let role = if self.standby { VotingRole::Standby } else { VotingRole::Learner };
        self.role.run(role, None).await
    }
}

impl RoleArgs {
    async fn run(&self, role: VotingRole, replaces: Option<NodeId>) -> Result<(), CommandFailure> {
        let query = self.change.query().with(&member::ROLE, &role);
        let query = query.with_some(&member::REPLACES, replaces.as_ref());
        self.change.send(Method::PATCH, self.node, query, Some(self.wait)).await
    }
}

impl SetArgs {
    pub(super) async fn run(&self) -> Result<(), CommandFailure> {
        let query = self
            .change
            .query()
            .with_some(&member::PEER, self.peer.as_ref())
            .with_some(&member::HTTP, self.http.as_ref())
            .with_some(&member::ZOOKEEPER, self.zookeeper.as_ref())
            .with_some(&member::ZONE, self.zone.as_ref());
        self.change.send(Method::PATCH, self.node, query, None).await
    }
}

/// Waits until no change of the member is unfinished.
async fn wait_until_finished(
    client: &Client,
    node: NodeId,
    longest: Duration,
) -> Result<(), CommandFailure> {
    let began = Instant::now();
    let client = client.clone().request_timeout(INTERVAL * 4);
    let mut printed = String::new();
    let mut answered = began;
    loop {
        // Without a leader, a node may not know the change yet.
        if let Ok(body) = client.cluster().await
            && body.leader.is_some()
        {
            answered = Instant::now();
            let Some(state) = unfinished_change(&body, node) else { return Ok(()) };
            if state != printed {
                write_stderr(&state);
                printed = state;
            }
        }
        // A removed node may have been the only one in --addr.
        if answered.elapsed() > SILENCE_MAX {
            return Err(CommandFailure::failed(format!(
                "no node of --addr answers any more: the change of node {node} continues, and holdfast member ls --addr with other nodes \
                 shows it"
            )));
        }
        if began.elapsed() > longest {
            return Err(CommandFailure::failed(format!(
                "the change of node {node} is not finished yet: it continues, and holdfast member ls shows it"
            )));
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// The unfinished change in words.
fn unfinished_change(body: &ClusterBody, node: NodeId) -> Option<String> {
    let change = body.nodes.iter().find(|one| one.id == node)?.change.as_ref()?;
    let reason = body.change_waits_for.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    Some(format!("node {node}: {change}{reason}"))
}
