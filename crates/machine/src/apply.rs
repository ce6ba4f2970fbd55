//! Applies a log entry. Each command gets a revision, the expired timers of the locks that it names run, and its
//! function executes it.
//!
//! Only this file changes the revision, the machine's time and the rolling digest. A rejected command changes nothing
//! except those timers: its function checks everything before its first change, or [`Machine::undo_if_rejected`] undoes
//! what it changed.

use holdfast_types::{
    Actor, Applied, Command, Entry, Event, NumberedCall, Outcome, Rejection, Reply, Revision,
};

use crate::cluster::LastBackup;
use crate::command_rules::{CommandRules, Growth};
use crate::context::ApplyContext;
use crate::lock::durable::check_durable;
use crate::{Machine, digest};

impl Machine {
    /// Executes the commands of one entry in order, and returns one outcome for each. A rejected command takes a
    /// revision. It changes nothing else, with two exceptions: expired timers of the locks that it names run, and a
    /// session may remember the rejection under the request number.
    pub fn apply(&mut self, entry: Entry) -> Applied {
        self.now = self.now.max(entry.stamped_at);
        let mut outcomes = Vec::with_capacity(entry.commands.len());
        let mut events = Vec::with_capacity(4 * entry.commands.len());
        for command in entry.commands {
            self.revision = Revision(self.revision.0.saturating_add(1));
            let before = events.len();
            let (revision, now) = (self.revision, self.now);
            let (actor, call, command) = command.into_parts();
            let mut ctx = ApplyContext::new(revision, now, actor, &mut events);
            let mut rules = CommandRules::of(&command);
            self.run_timers_of(rules.locks, &mut ctx);
            let audited = self.audited(&ctx.actor, &command, rules.audit.take());
            let before_command = ctx.events_len();
            let growth = rules.growth;
            let outcome =
                self.check_command(&ctx.actor, call.as_ref(), &command, &rules).and_then(|()| {
                    self.once(call, growth, &mut ctx, |m, ctx| {
                        m.within_limits(command, growth, ctx)
                    })
                });
            let caused = events.get(before_command..).unwrap_or_default();
            if let Some(change) = audited
                && change.is_done(&outcome, caused)
            {
                let event = self.record_change(change, caused);
                events.push((self.revision, event));
            }
            let changed = events.get(before..).unwrap_or_default();
            self.digest = digest::fold_command(self.digest, self.revision, &outcome, changed);
            outcomes.push(outcome);
        }
        Applied { revision: self.revision, outcomes, events }
    }

    /// Rejects a command that the level, the actor or the seal does not allow. Such a rejection is not remembered.
    fn check_command(
        &self,
        actor: &Actor,
        call: Option<&NumberedCall>,
        command: &Command,
        rules: &CommandRules<'_>,
    ) -> Result<(), Rejection> {
        self.check_level(rules.level)?;
        self.authorize(actor, call, command)?;
        self.check_seal(rules)?;
        check_durable(call, command, &rules.needs)
    }

    fn within_limits(
        &mut self,
        command: Command,
        growth: Growth,
        ctx: &mut ApplyContext<'_>,
    ) -> Outcome {
        self.within_quotas(command, ctx, |machine, command, ctx| {
            if growth == Growth::Bytes {
                machine.within_bytes(ctx, |machine, ctx| machine.dispatch(command, ctx))
            } else {
                machine.dispatch(command, ctx)
            }
        })
    }

    fn dispatch(&mut self, command: Command, ctx: &mut ApplyContext<'_>) -> Outcome {
        match command {
            Command::OpenSession { open, attempt } => self.open_session(open, attempt, ctx),
            Command::RenewSession { session } => self.renew_session(&session, ctx),
            Command::CloseSession { session, attachment, incarnation } => {
                self.close_or_remember(session, attachment, incarnation, ctx)
            }
            Command::ExpireSession { session, generation } => {
                self.expire_session(session, generation, ctx)
            }
            Command::Acquire(acquire) => self.acquire(acquire, ctx),
            Command::Release(release) => self.release(release, ctx),
            Command::Cancel(cancel) => Ok(self.cancel(cancel, ctx)),
            Command::Multi(multi) => self.multi(multi, ctx),
            Command::Sweep { empty_before, count_max } => {
                Ok(Reply::Swept { count: self.sweep(empty_before, count_max, ctx) })
            }
            Command::SetLimits(limits) => {
                self.limits = limits;
                Ok(Reply::LimitsSet)
            }
            Command::RegisterNode { node, incarnation } => {
                self.register_node(node, incarnation, ctx)
            }
            Command::AttachSession { session, password, ttl } => {
                self.attach_session(session, password, ttl, ctx)
            }
            Command::Recipe(recipe) => self.recipe(recipe, ctx),
            Command::SetPolicy { lock, change } => self.set_policy(&lock, change, ctx),
            Command::RunTimers { lock } => {
                self.run_timers(&lock, ctx);
                Ok(Reply::TimersRun { ended: ctx.ended_holds })
            }
            Command::ForceRelease(release) => self.force_release(release, ctx),
            Command::RequestRelease(request) => self.request_release(request, ctx),
            Command::HandOver(hand_over) => self.hand_over(hand_over, ctx),
            Command::Bootstrap { cluster_id, level, members } => {
                self.bootstrap(cluster_id, level, members)
            }
            Command::Membership(change) => self.change_membership(change, ctx),
            Command::Auth(change) => self.change_auth(change, ctx),
            Command::SetLevel(level) => self.set_level(level, ctx),
            Command::ClaimSession { session } => self.claim_session(session, ctx),
            Command::RecordBackup { revision, bytes } => {
                self.record_backup(LastBackup { at: ctx.now, revision, bytes });
                Ok(Reply::BackupRecorded)
            }
            Command::VerifyState => {
                ctx.emit(Event::VerifyState);
                Ok(Reply::VerificationStarted)
            }
            Command::Seal { reason } => Ok(self.seal(reason, ctx)),
            Command::Unseal { seal } => self.unseal(seal, ctx),
            Command::RecordClocks { readings, jump } => Ok(self.record_clocks(readings, jump)),
            Command::RecordLeases { leases } => Ok(self.record_leases(leases)),
            Command::EndSession { session, incarnation, reason: _ } => {
                self.end_session_for_operator(&session, incarnation, ctx)
            }
            // The record is added as that of every audited command.
            Command::RecordOperation(_) => Ok(Reply::OperationRecorded),
            Command::EndSessions { subject, sessions, .. } => {
                Ok(self.end_sessions(&subject, &sessions, ctx))
            }
            // `into_parts` has removed it.
            Command::As { command, .. } | Command::Once { command, .. } => {
                self.dispatch(*command, ctx)
            }
        }
    }

    /// Runs a change. If it is rejected, undoes it and its events. The maps are persistent, so the copy to restore
    /// costs O(1).
    pub(crate) fn undo_if_rejected<T>(
        &mut self,
        ctx: &mut ApplyContext<'_>,
        change: impl FnOnce(&mut Self, &mut ApplyContext<'_>) -> Result<T, Rejection>,
    ) -> Result<T, Rejection> {
        let (before, events) = (self.clone(), ctx.events_len());
        let result = change(self, ctx);
        if result.is_err() {
            *self = before;
            ctx.truncate_events(events);
        }
        result
    }
}
