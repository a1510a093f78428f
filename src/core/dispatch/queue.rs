//! The queue of one session: what is urgent goes before what is not, each in
//! order of arrival, and what waits together is told together.

use std::collections::{HashSet, VecDeque};

use crate::base::ids::DeliveryId;

use super::model::{Batch, Command, Job, Task};
use crate::core::outcome::{Reason, State};

/// How many events are told together at most.
const MAX_TOGETHER: usize = 10;
/// How many bytes the prompts of events that are told together may have.
const MAX_TOGETHER_BYTES: usize = 16 * 1024;

/// The jobs of one session that have not ended.
#[derive(Debug, Default)]
pub(super) struct Queue {
    jobs: VecDeque<Queued>,
    /// Theirs, because every delivery is looked for when it comes.
    deliveries: HashSet<DeliveryId>,
}

/// A job that waits or is under way.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "facts that hold or do not, each by itself")]
pub(super) struct Queued {
    pub(super) delivery: DeliveryId,
    pub(super) task: Task,
    pub(super) attempts: u8,
    /// It may stand in the agent's box already: nothing goes before it, and only
    /// what began with it is told with it.
    begun: bool,
    /// The inbox says that an earlier receiver began it.
    pub(super) is_stored_begun: bool,
    now: bool,
    released: bool,
    gathers: bool,
    bytes: usize,
}

impl Queued {
    /// Its session has ended: what was to be delivered was not, what was to end it
    /// is done.
    pub(super) fn closed_before(self) -> Command {
        let (state, reason) = match self.task {
            Task::Deliver => (State::Failed, Reason::ClosedBeforeDelivery),
            Task::Close(why) => (State::Done, why),
        };
        Command::Record { delivery: self.delivery, state, reason, detail: None }
    }
}

impl Queue {
    pub(super) fn len(&self) -> usize {
        self.jobs.len()
    }

    pub(super) fn holds(&self, delivery: &DeliveryId) -> bool {
        self.deliveries.contains(delivery)
    }

    pub(super) fn head(&self) -> Option<&Queued> {
        self.jobs.front()
    }

    /// Whether the first waits for others that belong to it.
    pub(super) fn gathers(&self) -> bool {
        self.jobs.front().is_some_and(|head| head.gathers)
    }

    /// Adds a job: an urgent one before all that are not, but behind what may
    /// have been typed.
    pub(super) fn push(&mut self, job: Job) {
        let Job { delivery, task, now, gathers, bytes, begun, .. } = job;
        let queued = Queued {
            delivery,
            task,
            attempts: 0,
            begun,
            is_stored_begun: begun,
            now,
            released: false,
            gathers,
            bytes,
        };
        let mut at = self.jobs.len();
        if begun {
            // What began together stays together, whatever came in between.
            at = self.jobs.iter().take_while(|other| other.begun).count();
        } else if now && task == Task::Deliver {
            // What came before an end of the session is not for the one after it.
            let end = self.jobs.iter().rposition(|other| other.task.is_close());
            let from = end.map_or(0, |end| end + 1);
            let before = |other: &&Queued| other.begun || other.now;
            at = from + self.jobs.iter().skip(from).take_while(before).count();
        }
        self.deliveries.insert(queued.delivery.clone());
        self.jobs.insert(at, queued);
    }

    /// How many of the first are told together.
    pub(super) fn together(&self) -> usize {
        let Some(head) = self.jobs.front().filter(|head| head.task == Task::Deliver) else {
            return 0;
        };
        let mut bytes = 0;
        self.jobs
            .iter()
            .take(MAX_TOGETHER)
            .take_while(|queued| {
                bytes += queued.bytes;
                queued.task == Task::Deliver
                    && queued.begun == head.begun
                    && queued.now == head.now
                    && (head.begun || bytes <= MAX_TOGETHER_BYTES || bytes == head.bytes)
            })
            .count()
    }

    /// The first `number` as they are told. They count as begun from now on.
    pub(super) fn begin(&mut self, number: usize) -> Batch {
        let mut batch = Batch { deliveries: Vec::new(), now: false, released: false };
        for queued in self.jobs.iter_mut().take(number) {
            queued.begun = true;
            batch.now |= queued.now;
            // Only now: what a person types from here on counts again.
            batch.released |= std::mem::take(&mut queued.released);
            batch.deliveries.push(queued.delivery.clone());
        }
        batch
    }

    /// Nothing of the first `number` was typed after all. Gives back those of which
    /// the inbox says otherwise.
    pub(super) fn step_back(&mut self, number: usize) -> Vec<DeliveryId> {
        let mut otherwise = Vec::new();
        for queued in self.jobs.iter_mut().take(number) {
            queued.begun = false;
            if std::mem::take(&mut queued.is_stored_begun) {
                otherwise.push(queued.delivery.clone());
            }
        }
        // What is urgent and came meanwhile goes before them.
        let end = self.before_close();
        self.jobs.make_contiguous()[..end].sort_by_key(|queued| !queued.now);
        otherwise
    }

    fn before_close(&self) -> usize {
        self.jobs.iter().take_while(|queued| queued.task == Task::Deliver).count()
    }

    /// Whether it would help if the first `number`, which are begun, were given
    /// back: others would go before them, or with them.
    pub(super) fn wants_back(&self, number: usize) -> bool {
        let Some(head) = self.jobs.front() else { return false };
        let mut waiting = self.jobs.range(number.min(self.before_close())..self.before_close());
        if !head.now && waiting.clone().any(|queued| queued.now) {
            return true;
        }
        let bytes: usize = self.jobs.iter().take(number + 1).map(|queued| queued.bytes).sum();
        number < MAX_TOGETHER
            && bytes <= MAX_TOGETHER_BYTES
            && waiting
                .next()
                .is_some_and(|next| !next.gathers && !next.begun && next.now == head.now)
    }

    /// Others that belong to this one had time to come.
    pub(super) fn gathered(&mut self, delivery: &DeliveryId) {
        for queued in self.jobs.iter_mut().filter(|queued| queued.delivery == *delivery) {
            queued.gathers = false;
        }
    }

    /// A person lets in what waits.
    pub(super) fn release(&mut self) {
        for queued in &mut self.jobs {
            queued.gathers = false;
            if queued.task == Task::Deliver {
                (queued.now, queued.released) = (true, true);
            }
        }
    }

    pub(super) fn first_mut(&mut self, number: usize) -> impl Iterator<Item = &mut Queued> {
        self.jobs.iter_mut().take(number)
    }

    pub(super) fn drop_first(&mut self, number: usize) -> impl Iterator<Item = Queued> {
        let kept = self.jobs.split_off(number.min(self.jobs.len()));
        self.keep(kept)
    }

    /// Drops all but the first `number`.
    pub(super) fn drop_behind(&mut self, number: usize) -> impl Iterator<Item = Queued> {
        let behind = self.jobs.split_off(number.min(self.jobs.len()));
        let kept = std::mem::replace(&mut self.jobs, behind);
        self.keep(kept)
    }

    /// Keeps these, and gives back the others.
    fn keep(&mut self, kept: VecDeque<Queued>) -> impl Iterator<Item = Queued> {
        let dropped = std::mem::replace(&mut self.jobs, kept);
        for queued in &dropped {
            self.deliveries.remove(&queued.delivery);
        }
        dropped.into_iter()
    }

    /// Whether the session's end waits behind the first.
    pub(super) fn close_is_waiting(&self) -> bool {
        self.jobs.iter().skip(1).any(|queued| queued.task.is_close())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::Slug;

    fn job(id: &str, now: bool, bytes: usize) -> Job {
        let slug: Slug = "o+r+1".parse().unwrap();
        Job { now, bytes, ..Job::new(id.parse().unwrap(), slug, Task::Deliver) }
    }

    fn queue(jobs: impl IntoIterator<Item = Job>) -> Queue {
        let mut queue = Queue::default();
        jobs.into_iter().for_each(|job| queue.push(job));
        queue
    }

    fn order(queue: &Queue) -> String {
        queue.jobs.iter().map(|queued| queued.delivery.as_str()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_is_urgent_goes_before_what_is_not_each_in_its_order() {
        let jobs = [("a", false), ("b", true), ("c", false), ("d", true)];
        let queue = queue(jobs.map(|(id, now)| job(id, now, 1)));
        assert_eq!(order(&queue), "b d a c");
        assert_eq!(queue.together(), 2, "what is urgent is not told with what is not");
    }

    #[test]
    fn nothing_goes_before_what_may_have_been_typed_until_it_is_given_back() {
        let mut queue = queue([job("a", false, 1), job("b", false, 1)]);
        queue.begin(1);
        queue.push(job("c", true, 1));
        assert_eq!(order(&queue), "a c b");
        assert!(queue.wants_back(1));
        queue.step_back(1);
        assert_eq!(order(&queue), "c a b");
    }

    #[test]
    fn what_comes_after_the_end_of_a_session_does_not_go_before_it() {
        let mut queue = queue([job("a", false, 1)]);
        queue.begin(1);
        queue.push(Job { task: Task::Close(Reason::ItemClosed), ..job("x", false, 0) });
        queue.push(job("b", false, 1));
        queue.push(job("c", true, 1));
        assert_eq!(order(&queue), "a x c b");
        assert!(!queue.wants_back(1));
        queue.step_back(1);
        assert_eq!(order(&queue), "a x c b");
    }

    #[test]
    fn what_is_released_is_so_once_and_waits_for_no_turn_from_then_on() {
        let mut queue = queue([job("a", false, 1), job("b", false, 1)]);
        queue.release();
        let batch = queue.begin(2);
        assert!(batch.now && batch.released);
        queue.step_back(2);
        let batch = queue.begin(2);
        assert!(batch.now && !batch.released);
    }

    #[test]
    fn at_most_ten_events_and_sixteen_kilobytes_are_told_together() {
        let many = queue((0..12).map(|n| job(&n.to_string(), false, 1)));
        assert_eq!(many.together(), 10);
        let long = queue((0..4).map(|n| job(&n.to_string(), false, 6000)));
        assert_eq!(long.together(), 2);
        let one = queue([job("a", false, 20_000), job("b", false, 1)]);
        assert_eq!(one.together(), 1, "one that is longer alone is told alone");
        let mut begun = queue([job("a", false, 1), job("b", false, 1)]);
        begun.begin(1);
        assert_eq!(begun.together(), 1, "nothing joins what may have been typed");
    }

    #[test]
    fn what_is_urgent_and_came_in_between_does_not_part_those_that_began_together() {
        let jobs = [("a", true), ("b", false), ("c", true)];
        let queue = queue(jobs.map(|(id, begun)| Job { begun, ..job(id, !begun, 1) }));
        assert_eq!(order(&queue), "a c b");
        assert_eq!(queue.together(), 2);
    }

    #[test]
    fn those_that_began_together_before_a_restart_are_told_together_again() {
        let jobs = ["a", "b"].map(|id| Job { begun: true, ..job(id, false, 9000) });
        let queue = queue(jobs.into_iter().chain([job("c", false, 1)]));
        assert_eq!(queue.together(), 2);
    }
}
