//! Compares the wall clocks of the members with the log's time. The leader asks all other members.
//!
//! The leader records the clocks in the log at the beginning of its leadership, after the restart of a member, and at
//! least once a minute. After a stop of all nodes, the log's time jumps by the time that the clocks of a majority measured
//! since the last record. No promise depends on the difference of two wall clocks; the alarms `clock-skew` and
//! `time-behind` name it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use holdfast_machine::Machine;
use holdfast_raft::{ClockComparison, ClockSample, LeaderEpoch};
use holdfast_types::{Actor, ClockReading, Command, NodeId, Stamp, TimeJump, millis};
use tokio::time::MissedTickBehavior;

use crate::health::alarms::ClockFacts;
use crate::service::Service;
use crate::service_call::ReadClock;

const COMPARE_INTERVAL: Duration = Duration::from_secs(5);
const CALL_TIMEOUT: Duration = Duration::from_secs(1);
/// The same, while commands of clients wait for the result.
const SETTLE_CALL: Duration = Duration::from_millis(200);
const SETTLE_PAUSE: Duration = Duration::from_millis(50);
/// How long commands of clients wait for clocks that agree. Then the lost time stays lost.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(10);
/// The interval while a member does not reply: it may be starting.
const INCOMPLETE_PAUSE: Duration = Duration::from_secs(1);
/// The maximum time between two records of the clocks.
const RECORD_INTERVAL: Duration = Duration::from_mins(1);

/// Compares the clocks until the service is stopped.
pub(crate) async fn run(service: Service) {
    let mut leadership = service.raft().leadership();
    let mut period = tokio::time::interval(COMPARE_INTERVAL);
    period.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut led = None::<LedClocks>;
    loop {
        let known = led.as_ref().map(|led| led.epoch);
        let incomplete = led.as_ref().is_some_and(|led| led.replied < service.members().len());
        let unrecorded = led
            .as_ref()
            .is_some_and(|led| led.recorded.is_none() && led.since.elapsed() < SETTLE_TIMEOUT);
        let unsettled = known.is_some() && !service.raft().is_time_settled();
        tokio::select! {
            () = service.stopped().cancelled() => return,
            _ = period.tick() => {}
            () = tokio::time::sleep(SETTLE_PAUSE), if unsettled || unrecorded => {}
            () = tokio::time::sleep(INCOMPLETE_PAUSE), if known.is_some() && incomplete => {}
            changed = leadership.wait_for(|now| now.epoch != known) => {
                if changed.is_err() {
                    return;
                }
            }
        }
        let epoch = leadership.borrow_and_update().epoch;
        if epoch != known {
            led = epoch.map(|epoch| LedClocks {
                epoch,
                since: Instant::now(),
                recorded: None,
                replied: 0,
            });
        }
        let facts = match &mut led {
            // A record before the first members would have no clocks.
            Some(led) if service.raft().read(Machine::cluster_id).is_some() => {
                led.compare(&service).await
            }
            Some(_) | None => {
                service.raft().correct_wall_clock(0);
                service.raft().settle_time(epoch);
                ClockFacts::default()
            }
        };
        *service.parts.clocks.lock() = facts;
    }
}

/// The comparisons of one leadership.
struct LedClocks {
    epoch: LeaderEpoch,
    since: Instant,
    /// The time of this leadership's last record.
    recorded: Option<Instant>,
    /// The members of the last comparison.
    replied: usize,
}

impl LedClocks {
    /// Compares the clocks once, and records them if this is due.
    async fn compare(&mut self, service: &Service) -> ClockFacts {
        let raft = service.raft();
        let settled = settle_if_measured(service, self.epoch);
        let replies = read_clocks(service, if settled { CALL_TIMEOUT } else { SETTLE_CALL }).await;
        let (now, own) = (Instant::now(), service.clock_reading());
        let samples = replies.iter().map(|(node, reply)| (*node, reply.sample(now)));
        let mut samples: BTreeMap<_, _> = samples.collect();
        let ClockReading { wall, run } = own;
        samples.insert(service.node(), ClockSample { least: wall, most: wall, run });
        let former = std::mem::replace(&mut self.replied, samples.len());
        let (voters, log) = (raft.status().voters, raft.stamp());
        let (verdict, restarted) = raft.read(|machine| {
            let (leader, record) = (service.node(), machine.clocks());
            let comparison =
                ClockComparison { leader, voters: &voters, samples: &samples, log, record };
            (comparison.verdict(), comparison.has_restarted())
        });
        let ahead = |time: Stamp| time.0.cast_signed().saturating_sub(log.0.cast_signed());
        if let Some(behind) = verdict.behind_ms {
            raft.correct_wall_clock(behind.saturating_sub(ahead(wall)));
        }
        let is_old = self.recorded.is_none_or(|at| at.elapsed() >= RECORD_INTERVAL);
        let gives_up = !settled && self.since.elapsed() >= SETTLE_TIMEOUT;
        if (verdict.decided && (is_old || restarted)) || gives_up {
            let jump = verdict.jump.filter(|_| verdict.decided);
            self.record(service, &samples, jump).await;
            if self.replied != former {
                let count = self.replied;
                tracing::info!("the clocks of {count} members are recorded");
            }
        }
        let offsets = replies.iter().map(|(node, reply)| (*node, reply.certain_offset())).collect();
        let passed = ahead(raft.stamp()).saturating_sub(millis(now.elapsed()).cast_signed());
        let behind_ms = verdict.behind_ms.map(|behind| behind.saturating_sub(passed));
        ClockFacts { offsets, behind_ms }
    }

    /// Writes the clocks into the log. Only then the log's time is settled.
    async fn record(
        &mut self,
        service: &Service,
        samples: &BTreeMap<NodeId, ClockSample>,
        jump: Option<TimeJump>,
    ) {
        let reading = |sample: &ClockSample| ClockReading { wall: sample.most, run: sample.run };
        let readings = samples.iter().map(|(node, sample)| (*node, reading(sample))).collect();
        let command = Command::RecordClocks { readings, jump }.by(Actor::Node);
        let before = service.raft().stamp();
        match service.raft().propose_as_leader(vec![command], self.epoch).await {
            Ok(_) => {
                self.recorded = Some(Instant::now());
                service.raft().settle_time(Some(self.epoch));
                if let Some(TimeJump::Lost(to)) = jump {
                    let lost_ms = to.0.saturating_sub(before.0);
                    tracing::info!(
                        lost_ms,
                        "the log's time has jumped over the time without a leader"
                    );
                }
            }
            Err(error) => tracing::debug!(%error, "failed to record the clocks"),
        }
    }
}

/// Settles the log's time if no clock has to be asked: there is no record, or this process has run since the last one.
fn settle_if_measured(service: &Service, epoch: LeaderEpoch) -> bool {
    let run = service.clock_reading().run;
    let measured = service.raft().read(|machine| {
        let leads = machine.clocks().map(|record| &record.leads);
        leads.is_none_or(|leads| leads.get(&service.node()).is_some_and(|lead| lead.run == run))
    });
    if measured {
        service.raft().settle_time(Some(epoch));
    }
    service.raft().is_time_settled()
}

/// The reply of another member.
struct ClockReply {
    /// This node's clock at the sending.
    sent: Stamp,
    sent_at: Instant,
    received_at: Instant,
    theirs: ClockReading,
}

impl ClockReply {
    fn sample(&self, now: Instant) -> ClockSample {
        let ClockReading { wall, run } = self.theirs;
        let since = |at: Instant| millis(now.saturating_duration_since(at));
        ClockSample {
            least: Stamp(wall.0.saturating_add(since(self.received_at))),
            most: Stamp(wall.0.saturating_add(since(self.sent_at)).saturating_add(1)),
            run,
        }
    }

    /// How far the clock is ahead of this node's, milliseconds; negative if it is behind. The peer read its clock at an
    /// unknown time of the call. Only the difference that this does not explain counts.
    fn certain_offset(&self) -> i64 {
        let took = self.received_at.saturating_duration_since(self.sent_at);
        let received = self.sent.0.saturating_add(millis(took));
        let ahead = self.theirs.wall.0.saturating_sub(received).cast_signed();
        let behind = self.sent.0.saturating_sub(self.theirs.wall.0).cast_signed();
        ahead - behind
    }
}

async fn read_clocks(service: &Service, timeout: Duration) -> BTreeMap<NodeId, ClockReply> {
    let others = service.members().into_keys().filter(|id| *id != service.node());
    let reads = others.map(async |id| Some((id, read_clock(service, id, timeout).await?)));
    futures_util::future::join_all(reads).await.into_iter().flatten().collect()
}

async fn read_clock(service: &Service, node: NodeId, timeout: Duration) -> Option<ClockReply> {
    let (sent_at, sent) = (Instant::now(), service.raft().wall_clock());
    let theirs = service.call_service(node, ReadClock, sent_at + timeout).await.ok()?;
    Some(ClockReply { sent, sent_at, received_at: Instant::now(), theirs })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(theirs: u64) -> ClockReply {
        let (sent_at, run) = (Instant::now(), 1);
        let received_at = sent_at + Duration::from_millis(40);
        let theirs = ClockReading { wall: Stamp(theirs), run };
        ClockReply { sent: Stamp(1_000), sent_at, received_at, theirs }
    }

    #[test]
    fn the_duration_of_the_call_is_not_a_difference() {
        let offset = |theirs| reply(theirs).certain_offset();
        assert_eq!([1_000, 1_020, 1_040].map(offset), [0, 0, 0]);
        assert_eq!([990, 1_041, 3_040].map(offset), [-10, 1, 2_000]);
    }

    #[test]
    fn a_sample_includes_the_duration_of_the_call() {
        let reply = reply(5_000);
        let sample = reply.sample(reply.received_at + Duration::from_millis(7));
        assert_eq!((sample.least, sample.most), (Stamp(5_007), Stamp(5_048)));
    }
}
