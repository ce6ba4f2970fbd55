//! Shrinks a failing script.
//!
//! The search leaves out ever smaller parts of the script, then requests of bursts and of multis, as long as the
//! remaining script still fails. The caller defines failure.

use holdfast_zkwire::Request;

use crate::script::Step;

/// Returns the smallest failing script found with at most `tries` calls of `fails`.
pub async fn shrink(
    steps: Vec<Step>,
    mut tries: usize,
    mut fails: impl AsyncFnMut(&[Step]) -> bool,
) -> Vec<Step> {
    let mut steps = without_parts(steps, &mut tries, &mut fails).await;
    let mut at = 0;
    while at < steps.len() && tries > 0 {
        let mut smaller = simpler(&steps[at]).into_iter();
        let found = loop {
            let Some(step) = smaller.next() else { break false };
            let mut fewer = steps.clone();
            fewer[at] = step;
            tries = tries.saturating_sub(1);
            if fails(&fewer).await {
                steps = fewer;
                break true;
            }
        };
        at += usize::from(!found);
    }
    without_parts(steps, &mut tries, &mut fails).await
}

async fn without_parts(
    mut steps: Vec<Step>,
    tries: &mut usize,
    fails: &mut impl AsyncFnMut(&[Step]) -> bool,
) -> Vec<Step> {
    let mut size = steps.len() / 2;
    while size > 0 && *tries > 0 {
        // From the end: later steps depend on earlier ones.
        let mut end = steps.len();
        while end > 0 && *tries > 0 {
            let start = end.saturating_sub(size);
            let mut fewer = steps.clone();
            fewer.drain(start..end.min(fewer.len()));
            *tries -= 1;
            if fails(&fewer).await {
                steps = fewer;
            }
            end = start;
        }
        size /= 2;
    }
    steps
}

/// The step without one request, or without one item of a multi.
fn simpler(step: &Step) -> Vec<Step> {
    let Step::Burst { slot, requests } = step else { return Vec::new() };
    let burst = |requests| Step::Burst { slot: *slot, requests };
    let mut found = Vec::new();
    for at in 0..requests.len() {
        if requests.len() > 1 {
            let mut fewer = requests.clone();
            fewer.remove(at);
            found.push(burst(fewer));
        }
        if let Request::Multi(ops) = &requests[at] {
            for item in 0..ops.len() {
                let mut ops = ops.clone();
                ops.remove(item);
                let mut fewer = requests.clone();
                fewer[at] = Request::Multi(ops);
                found.push(burst(fewer));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::parse_script;

    #[tokio::test]
    async fn only_steps_that_cause_the_failure_remain() {
        let text = "open 0\nopen 1\n0: get /a ; set /b null 0 ; ping\ndrop 1\n1: ping\n0: multi | check /a 1 | check /b 2\n0: ping\n";
        let fails = |steps: &[Step]| {
            let has = |wanted: &str| steps.iter().any(|step| step.to_string().contains(wanted));
            has("set /b") && has("check /b")
        };
        let steps = shrink(parse_script(text).unwrap(), 500, async |steps| fails(steps)).await;
        let expected = "0: set /b null 0\n0: multi | check /b 2\n";
        assert_eq!(crate::script::print_script(&steps), expected);
    }
}
