//! Plays a scenario: steps in order, then the checks.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use crate::adapter::{Adapter, SeenAnswer};
use crate::checks::{self, RunRecord};
use crate::faults;
use crate::grant_log::GrantWatch;
use crate::observed::Observed;
use crate::poll::poll;
use crate::protocol::{AnswerError, Call, ErrorKind};
use crate::scenario::{
    AwaitStep, CallStep, CallsStep, CheckName, EventStep, LockHasStep, NoEventStep, OperatorStep,
    Outcome, Scenario, Step,
};
use crate::stage::Stage;

/// The time of an answer without `within_ms`.
const ANSWER_TIME: Duration = Duration::from_secs(30);
const EVENT_TIME: Duration = Duration::from_secs(10);
const STATE_TIME: Duration = Duration::from_secs(5);
const END_TIME: Duration = Duration::from_secs(20);
/// The time to empty queues after the end of adapters that closed their clients.
const EMPTY_TIME: Duration = Duration::from_secs(6);

/// How a scenario ended, unless it passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The client has no such call or option.
    Unsupported(String),
    /// Something was not as expected.
    Failed(String),
}

impl From<String> for Failure {
    fn from(reason: String) -> Self {
        Self::Failed(reason)
    }
}

impl From<&str> for Failure {
    fn from(reason: &str) -> Self {
        Self::Failed(reason.to_owned())
    }
}

/// A request whose answer a later step waits for.
#[derive(Clone, Debug)]
pub(crate) struct BegunCall {
    on: String,
    id: u64,
    call: Call,
}

/// A scenario in progress.
pub(crate) struct Play {
    pub(crate) stage: Stage,
    pub(crate) observed: Observed,
    /// Nodes that faults have named.
    pub(crate) nodes: BTreeMap<String, u64>,
    begun: BTreeMap<String, BegunCall>,
}

/// Plays a scenario with the adapter that a command starts.
///
/// # Errors
/// The step that failed, or the check.
pub async fn play(scenario: &Scenario, command: &str) -> Result<(), Failure> {
    let stage = Stage::start(&scenario.cluster, command).await?;
    let watch = GrantWatch::start(stage.operator.clone());
    let observed = Observed::default();
    let mut play = Play { stage, observed, nodes: BTreeMap::new(), begun: BTreeMap::new() };
    play.skip_unsupported(scenario).await?;
    for (index, step) in scenario.steps.iter().enumerate() {
        play.step(step).await.map_err(|failure| match failure {
            Failure::Failed(reason) => {
                let stderr: String = play.stage.adapters.values().map(Adapter::stderr).collect();
                Failure::Failed(format!("step {}: {reason}\n    in {step:?}{stderr}", index + 1))
            }
            Failure::Unsupported(_) => failure,
        })?;
    }
    play.end(scenario, watch).await
}

impl Play {
    /// Asks the adapter what its client does not have, before the scenario begins.
    async fn skip_unsupported(&mut self, scenario: &Scenario) -> Result<(), Failure> {
        let info = self.send_and_wait("a", Call::Info {}, ANSWER_TIME).await?;
        let info = info.result.map_err(|error| format!("info: {error:?}"))?;
        let unsupported = info["unsupported"].as_array().cloned().unwrap_or_default();
        for step in &scenario.steps {
            let Step::Do(step) = step else { continue };
            let needs = step.call.needs();
            let missing = needs.into_iter().find(|need| unsupported.contains(&json!(need)));
            if let Some(missing) = missing {
                return Err(Failure::Unsupported(missing));
            }
        }
        Ok(())
    }

    async fn step(&mut self, step: &Step) -> Result<(), Failure> {
        match step {
            Step::Do(step) => self.call(step).await,
            Step::Await(step) => self.await_begun(step).await,
            Step::Event(step) => self.event(step).await,
            Step::NoEvent(step) => self.no_event(step).await,
            Step::Inject(step) => Ok(faults::inject(self, step).await?),
            Step::Operator(step) => Ok(self.operator(step).await?),
            Step::LockHas(step) => Ok(self.lock_has(step).await?),
            Step::Calls(step) => Ok(self.calls(step)?),
        }
    }

    async fn call(&mut self, step: &CallStep) -> Result<(), Failure> {
        let on = step.sending.on.clone().unwrap_or_else(|| "a".to_owned());
        let call = self.prepared(step).await?;
        let sent = Instant::now();
        self.observed.sent(&on, &call, sent);
        let id = self.stage.adapter(&on)?.send(call.clone()).await?;
        let begun = BegunCall { on, id, call };
        if let Some(name) = &step.sending.begin {
            self.begun.insert(name.clone(), begun);
            return Ok(());
        }
        self.answered(begun, sent, &step.outcome).await
    }

    /// Replaces references, and adds what only the driver knows.
    async fn prepared(&mut self, step: &CallStep) -> Result<Call, Failure> {
        let fields = serde_json::to_value(&step.call).map_err(|error| error.to_string())?;
        let resolved = self.stage.saved.resolve(&fields)?;
        let mut call: Call = serde_json::from_value(resolved).map_err(|error| error.to_string())?;
        if let Call::Client(options) = &mut call
            && options.addresses.is_empty()
        {
            options.addresses = self.stage.connect(&options.name, &step.sending.nodes).await?;
        }
        if let Call::Cancel { request } = &mut call {
            let begun = request.as_str().and_then(|name| self.begun.get(name));
            let begun = begun.ok_or_else(|| format!("no step began {request}"))?;
            *request = begun.id.into();
        }
        Ok(call)
    }

    async fn await_begun(&mut self, step: &AwaitStep) -> Result<(), Failure> {
        let begun = self.begun.get(&step.request).cloned();
        let begun = begun.ok_or_else(|| format!("no step began {}", step.request))?;
        self.answered(begun, Instant::now(), &step.outcome).await
    }

    /// Waits for an answer, and compares it with what the step expects.
    async fn answered(
        &mut self,
        begun: BegunCall,
        since: Instant,
        outcome: &Outcome,
    ) -> Result<(), Failure> {
        let time = outcome.within_ms.map_or(ANSWER_TIME, Duration::from_millis);
        let adapter = self.stage.adapter(&begun.on)?;
        let answer = adapter.answer(begun.id, time).await?;
        let answer = answer.ok_or_else(|| format!("no answer within {time:?}"))?;
        let shortest = Duration::from_millis(outcome.at_least_ms.unwrap_or(0));
        let took = answer.at.saturating_duration_since(since);
        if took < shortest {
            return Err(format!("the answer took {took:?}: {:?}", answer.result).into());
        }
        self.observed.answered(&begun.on, &begun.call, &answer);
        self.compare(&outcome.expect, &answer.result)?;
        if let (Some(name), Ok(ok)) = (&outcome.save, answer.result) {
            self.stage.saved.insert(name, ok);
        }
        Ok(())
    }

    fn compare(
        &self,
        expect: &Map<String, Value>,
        result: &Result<Value, AnswerError>,
    ) -> Result<(), Failure> {
        if let Err(AnswerError { kind: ErrorKind::Unsupported, message, .. }) = result {
            return Err(Failure::Unsupported(message.clone()));
        }
        let Some(kinds) = expect.get("error").and_then(Value::as_str) else {
            let ok = result.as_ref().map_err(|error| format!("an error: {error:?}"))?;
            return Ok(self.stage.saved.compare(expect, ok)?);
        };
        let error = match result {
            Ok(_) if kinds == "any" && expect.len() == 1 => return Ok(()),
            Ok(ok) => return Err(format!("no error `{kinds}` but {ok}").into()),
            Err(error) => serde_json::to_value(error).map_err(|error| error.to_string())?,
        };
        let is_of_kind = kinds == "any" || kinds.split('|').any(|kind| error["kind"] == kind);
        if !is_of_kind {
            return Err(format!("no error `{kinds}` but {error}").into());
        }
        let facts = expect.iter().filter(|(key, _)| *key != "error");
        let facts = facts.map(|(key, value)| (key.clone(), value.clone())).collect();
        Ok(self.stage.saved.compare(&facts, &error)?)
    }

    async fn event(&mut self, step: &EventStep) -> Result<(), Failure> {
        let on = step.on.clone().unwrap_or_else(|| "a".to_owned());
        let time = step.within_ms.map_or(EVENT_TIME, Duration::from_millis);
        let (saved, adapter) = self.stage.saved_and_adapter(&on)?;
        let fits = |event: &crate::adapter::SeenEvent| {
            event.fields["event"] == step.event
                && saved.compare(&step.fields, &Value::Object(event.fields.clone())).is_ok()
        };
        let Some(event) = adapter.event(time, fits).await? else {
            let seen: Vec<_> = adapter.events().into_iter().map(|event| event.fields).collect();
            let seen = serde_json::to_string(&seen).unwrap_or_default();
            return Err(format!("no event within {time:?}; events so far: {seen}").into());
        };
        if let Some(name) = &step.save {
            self.stage.saved.insert(name, Value::Object(event.fields));
        }
        Ok(())
    }

    async fn no_event(&mut self, step: &NoEventStep) -> Result<(), Failure> {
        let on = step.on.clone().unwrap_or_else(|| "a".to_owned());
        let (saved, adapter) = self.stage.saved_and_adapter(&on)?;
        let fits = |event: &crate::adapter::SeenEvent| {
            event.fields["event"] == step.no_event
                && saved.compare(&step.fields, &Value::Object(event.fields.clone())).is_ok()
        };
        match adapter.event(Duration::from_millis(step.for_ms), fits).await? {
            Some(event) => {
                let event = Value::Object(event.fields);
                Err(format!("an event that must not come: {event}").into())
            }
            None => Ok(()),
        }
    }

    async fn operator(&mut self, step: &OperatorStep) -> Result<(), String> {
        let line = self.stage.saved.resolve(&json!(step.operator))?;
        let line = line.as_str().unwrap_or_default().to_owned();
        let body = step.body.as_ref().map(|body| self.stage.saved.resolve(body)).transpose()?;
        let time = Duration::from_millis(step.within_ms.unwrap_or(0));
        let answer = poll(time, async || self.operator_once(step, &line, body.as_ref()).await);
        let answer = answer.await?;
        if let Some(name) = &step.save {
            self.stage.saved.insert(name, answer);
        }
        Ok(())
    }

    async fn operator_once(
        &self,
        step: &OperatorStep,
        line: &str,
        body: Option<&Value>,
    ) -> Result<Value, String> {
        let answer = self.stage.operator.call(line, body).await?;
        let is_right = match step.status {
            Some(status) => answer.status == status,
            None => (200..300).contains(&answer.status),
        };
        if !is_right {
            return Err(format!("status {}: {}", answer.status, answer.body));
        }
        self.stage.saved.compare(&step.expect, &answer.body)?;
        Ok(answer.body)
    }

    async fn lock_has(&self, step: &LockHasStep) -> Result<(), String> {
        let path = format!("/v1/locks/{}", step.lock_has);
        poll(step.within_ms.map_or(STATE_TIME, Duration::from_millis), async || {
            let state = self.stage.operator.read(&path).await.unwrap_or_default();
            let is = |field: &str, wanted: Option<u64>| {
                wanted.is_none_or(|wanted| state[field].as_u64() == Some(wanted))
            };
            let is_right = is("holders_total", step.holders) && is("waiters", step.waiters);
            is_right.then_some(()).ok_or_else(|| format!("the lock is {state}"))
        })
        .await
    }

    fn calls(&self, step: &CallsStep) -> Result<(), String> {
        let proxies = self.stage.proxies.get(&step.client);
        let seen = proxies.ok_or("no such client")?.calls(&step.calls);
        let is_right = step.min.is_none_or(|min| seen.len() >= min)
            && step.max.is_none_or(|max| seen.len() <= max);
        let lines: Vec<_> = seen.iter().map(|call| call.line.as_str()).collect();
        is_right.then_some(()).ok_or_else(|| format!("{} calls: {lines:?}", lines.len()))
    }

    async fn send_and_wait(
        &mut self,
        on: &str,
        call: Call,
        time: Duration,
    ) -> Result<SeenAnswer, String> {
        let adapter = self.stage.adapter(on)?;
        let id = adapter.send(call).await?;
        let answer = adapter.answer(id, time).await?;
        answer.ok_or_else(|| format!("no answer within {time:?}"))
    }

    /// Heals everything, ends the adapters, and checks the run.
    async fn end(mut self, scenario: &Scenario, watch: GrantWatch) -> Result<(), Failure> {
        faults::heal(&mut self).await?;
        let is_checked = |check| !scenario.unchecked.contains_key(&check);
        let mut record: RunRecord = self.observed.finish(&self.stage.adapters);
        let mut was_killed = false;
        for (name, adapter) in &mut self.stage.adapters {
            was_killed |= adapter.killed_at.is_some();
            let ended = adapter.shut_down(END_TIME).await;
            ended.map_err(|reason| format!("at the end, adapter {name}: {reason}"))?;
        }
        if is_checked(CheckName::EmptyQueues) {
            let ttl = if was_killed { self.observed.longest_ttl() } else { Duration::ZERO };
            self.empty_queues(EMPTY_TIME + ttl).await?;
        }
        let revision = self.stage.operator.read("/v1/locks").await;
        let revision = revision.and_then(|body| body["revision"].as_u64()).unwrap_or(0);
        let log = watch.finish(revision, STATE_TIME).await;
        // Answers of begun calls that no step has waited for.
        record.holds.sort_by_key(|hold| hold.token);
        let results = [
            (CheckName::OneHolder, "one holder", checks::one_holder(&log, &record)),
            (CheckName::TokensGrow, "tokens grow", checks::tokens_grow(&log, &record)),
            (CheckName::LossBeforeGrant, "loss before grant", checks::loss_before_grant(&record)),
        ];
        for (check, name, result) in results {
            if is_checked(check) {
                result.map_err(|reason| format!("check {name}: {reason}"))?;
            }
        }
        Ok(())
    }

    /// Waits until no lock has a holder or a waiter.
    async fn empty_queues(&self, time: Duration) -> Result<(), String> {
        poll(time, async || {
            for kind in ["held", "waiting"] {
                let list = self.stage.operator.read(&format!("/v1/locks?{kind}&limit=5")).await;
                let list = list.ok_or("no node lists the locks")?;
                if list["locks"].as_array().is_none_or(|locks| !locks.is_empty()) {
                    return Err(format!("check empty queues: {kind} after {time:?}: {list}"));
                }
            }
            Ok(())
        })
        .await
    }
}
