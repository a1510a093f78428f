//! Which deliveries GitHub is asked for again: those that never got an answer of
//! success, in the order in which they happened.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::base::ids::DeliveryId;

/// How far back GitHub can deliver again.
pub const KEPT: SignedDuration = SignedDuration::from_hours(72);
/// How long a redelivery may take to show: nothing is asked again before.
const SETTLES: SignedDuration = SignedDuration::from_secs(10);
/// How long a redelivery that GitHub promised, and that never shows, is waited for.
const PATIENCE: SignedDuration = SignedDuration::from_hours(1);
/// How long after a redelivery that failed the delivery is asked for again. Each
/// further failure doubles it.
const PAUSE: SignedDuration = SignedDuration::from_mins(5);
/// The longest such pause.
const LONGEST: SignedDuration = SignedDuration::from_hours(1);
/// What GitHub has done it may show this much later.
const SHOWN_WITHIN: SignedDuration = SignedDuration::from_mins(2);

/// One try of GitHub to hand a delivery over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// GitHub's number of it.
    pub id: u64,
    /// The delivery. A redelivery has the same.
    pub delivery: DeliveryId,
    /// When.
    pub at: Timestamp,
    /// The status it was answered with; 0 when it was not.
    pub code: u16,
}

/// The attempts in an answer of GitHub, newest first as it lists them. One that
/// cannot be read is none; where none of them can, it is no such list.
pub fn attempts(body: &[u8]) -> Result<Vec<Attempt>, serde_json::Error> {
    let all: Vec<Value> = serde_json::from_slice(body)?;
    let read = |value: &Value| {
        Some(Attempt {
            id: value["id"].as_u64()?,
            delivery: value["guid"].as_str()?.parse().ok()?,
            at: value["delivered_at"].as_str()?.parse().ok()?,
            code: value["status_code"].as_u64().and_then(|code| code.try_into().ok()).unwrap_or(0),
        })
    };
    let attempts: Vec<_> = all.iter().filter_map(read).collect();
    if attempts.is_empty() && !all.is_empty() {
        return Err(serde::de::Error::custom("no entry of it is a delivery"));
    }
    Ok(attempts)
}

/// That a delivery was asked for again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Asked {
    /// When.
    pub at: Timestamp,
    /// Whether GitHub took the request; without, it may never have been sent.
    pub taken: bool,
    /// How many attempts were known then: one more is what came of it.
    pub seen: usize,
    /// How often it was asked for.
    pub times: u32,
    /// It was given up: it is not asked for again.
    #[serde(default, alias = "refused")]
    pub given_up: bool,
}

/// What is to be done about what was missed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// What to ask for now, in this order, each with the number of its attempts.
    pub ask: Vec<(Attempt, usize)>,
    /// How many were missed and have not come yet, those to ask for among them.
    pub open: usize,
    /// What will not come: GitHub or the receiver refused it, or nothing came of it.
    /// It stays so until it is in, or GitHub has forgotten it.
    pub lost: Vec<DeliveryId>,
    /// When to look again, if that is sooner than usual.
    pub again_at: Option<Timestamp>,
    /// Nothing before this need be looked at again.
    pub settled: Option<Timestamp>,
}

/// Where a delivery stands that has not come.
enum Stand {
    /// It is to be asked for.
    Ask,
    /// It may have been asked for: that shows until then.
    Unsure(Timestamp),
    /// It was asked for, and may come yet.
    Wait,
    /// It will not come.
    Lost,
}

/// Decides. `has` says whether the inbox knows a delivery; `came` is when it last
/// took one in, `started` when the receiver was started.
///
/// While the way to the receiver is closed (what was asked for last failed too, and
/// nothing came since), only the oldest one is asked for, ever more seldom: the
/// others would fail like it.
pub fn plan(
    attempts: &[Attempt],
    asked: &BTreeMap<DeliveryId, Asked>,
    has: impl Fn(&DeliveryId) -> bool,
    came: Option<Timestamp>,
    started: Timestamp,
    now: Timestamp,
) -> Plan {
    let mut by_delivery: BTreeMap<&DeliveryId, Vec<&Attempt>> = BTreeMap::new();
    for attempt in attempts {
        let of = by_delivery.entry(&attempt.delivery).or_default();
        // Pages overlap when something happens between two.
        if of.iter().all(|known| known.id != attempt.id) {
            of.push(attempt);
        }
    }
    let mut all: Vec<_> = by_delivery.into_values().collect();
    for of in &mut all {
        of.sort_by_key(|attempt| (attempt.at, attempt.id));
    }
    all.sort_by_key(|of| (of[0].at, of[0].id));
    let mut plan = Plan::default();
    let mut is_closed = false;
    let mut is_held = false;
    let mut oldest = None;
    let mut is_in = BTreeSet::new();
    for of in all {
        let (first, newest) = (of[0], of[of.len() - 1]);
        if of.iter().any(|attempt| (200..300).contains(&attempt.code)) {
            is_in.insert(&first.delivery);
            continue;
        }
        if now.duration_since(first.at) > KEPT || has(&first.delivery) {
            continue;
        }
        let mark = asked.get(&first.delivery);
        let failed_again = mark.is_some_and(|mark| of.len() > mark.seen);
        match stand(newest, mark, failed_again, started, now) {
            Stand::Lost => {
                plan.lost.push(first.delivery.clone());
                continue;
            }
            // What may just have been asked for comes before it.
            Stand::Ask if is_held => {}
            Stand::Ask => plan.ask.push((first.clone(), of.len())),
            Stand::Unsure(until) => {
                is_held = true;
                plan.again_at = plan.again_at.max(Some(until));
            }
            Stand::Wait => {}
        }
        let nothing_since =
            |mark: &Asked| started < mark.at && came.is_none_or(|came| came < mark.at);
        is_closed |= failed_again && mark.is_some_and(nothing_since);
        plan.open += 1;
        oldest.get_or_insert(first);
    }
    // The attempts of what was given up are not looked at for ever.
    let given_up = asked.iter().filter(|(id, mark)| {
        mark.given_up && now.duration_since(mark.at) <= KEPT && !is_in.contains(id) && !has(id)
    });
    for (id, _) in given_up {
        if !plan.lost.contains(id) {
            plan.lost.push(id.clone());
        }
    }
    if is_closed {
        // The oldest is the one that shows whether the way is open again.
        plan.ask.retain(|(attempt, _)| oldest.is_some_and(|oldest| oldest.id == attempt.id));
    }
    let newest = attempts.iter().map(|attempt| attempt.at.min(now)).max();
    let shown = newest.and_then(|at| at.checked_sub(SHOWN_WITHIN).ok());
    plan.settled = shown.into_iter().chain(oldest.map(|oldest| oldest.at)).min();
    plan
}

fn stand(
    newest: &Attempt,
    mark: Option<&Asked>,
    failed_again: bool,
    started: Timestamp,
    now: Timestamp,
) -> Stand {
    let Some(mark) = mark else { return Stand::Ask };
    if mark.given_up {
        return Stand::Lost;
    }
    let since = now.duration_since(mark.at);
    if failed_again {
        // Somebody answered, and does not want it.
        if (400..500).contains(&newest.code) {
            return Stand::Lost;
        }
        let doubled = 1_i32 << mark.times.saturating_sub(1).min(5);
        let pause = PAUSE.checked_mul(doubled).unwrap_or(LONGEST).min(LONGEST);
        // It may have failed because the receiver came to its end.
        let is_due = since >= pause || started > mark.at;
        return if is_due { Stand::Ask } else { Stand::Wait };
    }
    match mark.taken {
        // The end came between the request and its record: it may have been sent.
        false if since < SETTLES => Stand::Unsure(mark.at.checked_add(SETTLES).unwrap_or(now)),
        false => Stand::Ask,
        true if since < PATIENCE => Stand::Wait,
        true => Stand::Lost,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn time(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    fn name(n: usize) -> DeliveryId {
        format!("d-{n}").parse().unwrap()
    }

    fn attempt(id: u64, n: usize, seconds: i64, code: u16) -> Attempt {
        Attempt { id, delivery: name(n), at: time(seconds), code }
    }

    fn mark(seconds: i64, taken: bool, seen: usize) -> Asked {
        Asked { at: time(seconds), taken, seen, times: 1, given_up: false }
    }

    /// The numbers of what is asked for.
    fn asks(plan: &Plan) -> Vec<u64> {
        plan.ask.iter().map(|(attempt, _)| attempt.id).collect()
    }

    #[test]
    fn an_answer_of_github_is_read_and_what_cannot_be_is_left_out() {
        let body = br#"[
            {"id": 12345678901, "guid": "0b989ba4-242f-11e5-81e1-c7b6966d2516",
             "delivered_at": "2026-06-03T00:57:16Z", "redelivery": false, "duration": 0.27,
             "status": "OK", "status_code": 200, "event": "issues", "action": "opened"},
            {"id": 2, "guid": "a", "delivered_at": "2026-06-03T00:57:15Z", "status_code": null},
            {"id": 3, "guid": "no guid!", "delivered_at": "2026-06-03T00:57:15Z"},
            {"id": 4, "guid": "b", "delivered_at": "yesterday"}, null, []]"#;
        let read = attempts(body).unwrap();
        let read: Vec<_> = read.iter().map(|attempt| (attempt.id, attempt.code)).collect();
        assert_eq!(read, [(12_345_678_901, 200), (2, 0)]);
        assert!(attempts(b"{}").is_err() && attempts(b"<html>").is_err());
        // A list of something else.
        assert!(attempts(b"[null, 1, {\"id\": null}]").is_err());
        assert_eq!(attempts(b"[]").unwrap(), []);
    }

    #[test]
    fn what_failed_is_asked_for_in_its_order_and_once() {
        let list = [
            attempt(6, 3, 60, 0),
            attempt(5, 2, 50, 200),
            attempt(4, 4, 40, 502),
            attempt(3, 1, 30, 504),
            attempt(3, 1, 30, 504),
            attempt(2, 2, 20, 500),
            attempt(1, 9, -300_000, 500),
        ];
        let none = BTreeMap::new();
        let found = plan(&list, &none, |_| false, None, time(0), time(100));
        assert_eq!((asks(&found), found.open), (vec![3, 4, 6], 3));
        assert_eq!((found.settled, found.again_at), (Some(time(-60)), None));
        assert_eq!(found.ask[0].1, 1, "a page that overlaps is no second attempt");
        // What the inbox knows has come, whatever GitHub saw of the answer.
        let found = plan(&list, &none, |id| *id == name(1), None, time(0), time(100));
        assert_eq!(asks(&found), [4, 6]);
        // What was asked for is not asked for again.
        let asked = BTreeMap::from([(name(1), mark(90, true, 1))]);
        let found = plan(&list, &asked, |_| false, None, time(0), time(100));
        assert_eq!((asks(&found), found.open), (vec![4, 6], 3));
        // Far later nothing more is expected of it.
        let found = plan(&list, &asked, |_| false, None, time(0), time(4000));
        assert_eq!((found.lost.clone(), found.open), (vec![name(1)], 2));
        assert_eq!(found.settled, Some(time(-60)), "GitHub may show more of that time yet");
        let found = plan(&list, &none, |_| true, None, time(0), time(4000));
        assert_eq!((found.open, found.settled), (0, Some(time(-60))));
        assert_eq!(plan(&[], &none, |_| false, None, time(0), time(0)), Plan::default());
    }

    #[test]
    fn a_request_that_a_crash_left_in_doubt_is_waited_for_before_the_others() {
        let list = [attempt(2, 2, 20, 0), attempt(1, 1, 10, 0)];
        let asked = BTreeMap::from([(name(1), mark(90, false, 1))]);
        let found = plan(&list, &asked, |_| false, None, time(0), time(95));
        assert_eq!((asks(&found), found.again_at), (vec![], Some(time(100))));
        let found = plan(&list, &asked, |_| false, None, time(0), time(100));
        assert_eq!(asks(&found), [1, 2]);
        let found = plan(&list, &asked, |id| *id == name(1), None, time(0), time(95));
        assert_eq!(asks(&found), [2]);
    }

    #[test]
    fn while_the_way_is_closed_only_the_oldest_is_tried_and_ever_more_seldom() {
        let list = [attempt(3, 1, 100, 0), attempt(2, 2, 20, 0), attempt(1, 1, 10, 0)];
        let mut asked = BTreeMap::from([(name(1), mark(90, true, 1))]);
        let at = |asked: &BTreeMap<_, _>, came, now| {
            asks(&plan(&list, asked, |_| false, came, time(0), time(now)))
        };
        assert!(at(&asked, None, 389).is_empty());
        assert_eq!(at(&asked, None, 390), [1]);
        // Something came since: the others are asked for, and it when its time is.
        assert_eq!(at(&asked, Some(time(91)), 389), [2]);
        assert_eq!(at(&asked, Some(time(91)), 390), [1, 2]);
        asked.get_mut(&name(1)).unwrap().times = 3;
        assert!(at(&asked, None, 90 + 1199).is_empty());
        assert_eq!(at(&asked, None, 90 + 1200), [1]);
        asked.get_mut(&name(1)).unwrap().times = 99;
        assert_eq!(at(&asked, None, 90 + 3600), [1]);
        // A receiver that was started since may be reached.
        let found = plan(&list, &asked, |_| false, None, time(91), time(92));
        assert_eq!(asks(&found), [1, 2]);
        // A receiver that answers and refuses will do so again; the way is open.
        let list = [attempt(3, 1, 100, 401), attempt(2, 2, 20, 0), attempt(1, 1, 10, 0)];
        let found = plan(&list, &asked, |_| false, None, time(0), time(200));
        assert_eq!((asks(&found), found.lost), (vec![2], vec![name(1)]));
    }

    #[test]
    fn what_was_given_up_is_lost_until_it_is_in_or_github_has_forgotten_it() {
        let given_up = Asked { given_up: true, ..mark(90, true, 1) };
        let asked = BTreeMap::from([(name(1), given_up)]);
        let lost = |list: &[Attempt], has: bool, now| {
            let found = plan(list, &asked, |_| has, None, time(0), time(now));
            assert_eq!((asks(&found), found.open), (vec![], 0));
            found.lost
        };
        let refused = [attempt(3, 1, 100, 401)];
        // The first attempt, or all of them, are looked at no more.
        for list in [&refused[..], &[]] {
            assert_eq!(lost(list, false, 200), [name(1)]);
            assert_eq!(lost(list, false, 90 + 72 * 3600), [name(1)]);
            assert!(lost(list, false, 91 + 72 * 3600 + 10).is_empty());
            assert!(lost(list, true, 200).is_empty());
        }
        // A person had it sent again.
        assert!(lost(&[attempt(4, 1, 150, 202)], false, 200).is_empty());
    }

    proptest! {
        #[test]
        fn whatever_fails_and_whenever_it_is_killed_each_comes_once_and_in_order(
            down in prop::collection::vec(any::<bool>(), 1..20),
            kills in prop::collection::vec(0_u8..4, 40),
        ) {
            let mut list: Vec<_> = down
                .iter()
                .enumerate()
                .map(|(n, down)| {
                    let seconds = i64::try_from(n).unwrap();
                    attempt(n as u64, n, seconds, if *down { 0 } else { 200 })
                })
                .collect();
            let mut asked = BTreeMap::<DeliveryId, Asked>::new();
            let mut came: Vec<DeliveryId> = Vec::new();
            let mut requests: BTreeMap<DeliveryId, u32> = BTreeMap::new();
            let mut now = 100;
            for kill in kills {
                let last = came.last().map(|_| time(now));
                let found = plan(&list, &asked, |id| came.contains(id), last, time(now), time(now));
                for (step, (of, seen)) in found.ask.iter().enumerate() {
                    let id = &of.delivery;
                    prop_assert!(!came.contains(id) && of.code == 0);
                    let mut mark = mark(now, false, *seen);
                    asked.insert(id.clone(), mark.clone());
                    if (kill, step) == (1, 1) {
                        break;
                    }
                    *requests.entry(id.clone()).or_default() += 1;
                    came.push(id.clone());
                    let n = usize::try_from(of.id).unwrap();
                    list.push(attempt(1000 + now.unsigned_abs(), n, now, 200));
                    now += 1;
                    if (kill, step) == (2, 1) {
                        break;
                    }
                    mark.taken = true;
                    asked.insert(id.clone(), mark);
                }
                now += i64::from(kill) * 4 + 1;
            }
            let missed: Vec<_> = (0..down.len()).filter(|n| down[*n]).map(name).collect();
            prop_assert_eq!(&came, &missed);
            prop_assert!(requests.values().all(|times| *times == 1));
        }
    }
}
