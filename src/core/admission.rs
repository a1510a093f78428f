//! Whether one more session may be opened: how many are, who has waited
//! longest, how much memory is free. A synchronous machine; `host::runner`
//! tells it what it has to know.

use std::collections::{BTreeMap, BTreeSet};

use super::config::Routing;
use super::outcome::Reason;
use crate::base::ids::Slug;

/// What the rules need to know of this moment.
#[derive(Debug, Clone, Copy)]
pub struct Load<'a> {
    /// The sessions that are open: started, and neither closed nor failed.
    pub open: &'a BTreeSet<Slug>,
    /// Bytes of memory that a new process can have; `None` where that is not
    /// told.
    pub free_memory: Option<u64>,
}

/// Those who were let in and are not open yet, and those who wait.
#[derive(Debug, Default)]
pub struct Admission {
    entering: BTreeSet<Slug>,
    /// Oldest first: a free place is the first one's. Each with what it was told.
    waiting: Vec<(Slug, Reason)>,
}

impl Admission {
    /// Lets a session start its agent, or says why it has to wait. One that is
    /// open already needs no place, but memory like every other.
    pub fn admit(&mut self, slug: &Slug, routing: &Routing, load: &Load<'_>) -> Option<Reason> {
        let refused = self.refuses(slug, routing, load);
        match (refused, self.waiting.iter_mut().find(|(waiting, _)| waiting == slug)) {
            (None, _) => {
                self.waiting.retain(|(waiting, _)| waiting != slug);
                self.entering.insert(slug.clone());
            }
            (Some(reason), Some((_, told))) => *told = reason,
            (Some(reason), None) => self.waiting.push((slug.clone(), reason)),
        }
        refused
    }

    /// Why the session would have to wait now.
    pub fn refuses(&self, slug: &Slug, routing: &Routing, load: &Load<'_>) -> Option<Reason> {
        let most = usize::from(routing.max_sessions);
        let has_place = load.open.contains(slug) || self.entering.contains(slug);
        if most > 0 && !has_place {
            let others = load.open.union(&self.entering).count();
            let position = self.waiting.iter().position(|(waiting, _)| waiting == slug);
            let before = position.unwrap_or(self.waiting.len());
            if others + before >= most {
                return Some(Reason::SessionsFull);
            }
        }
        let floor = routing.memory_floor.bytes();
        let is_low = floor > 0 && load.free_memory.is_some_and(|free| free < floor);
        is_low.then_some(Reason::MemoryLow)
    }

    /// Whether a session that was refused has another answer now: it is let in, or
    /// waits for something else.
    pub fn has_news(&self, slug: &Slug, routing: &Routing, load: &Load<'_>) -> bool {
        let told = self.waiting.iter().find(|(waiting, _)| waiting == slug).map(|(_, told)| *told);
        told.is_none() || self.refuses(slug, routing, load) != told
    }

    /// What holds starts back now, and how many sessions wait for it.
    pub fn held(&self, routing: &Routing, load: &Load<'_>) -> BTreeMap<Reason, usize> {
        let reasons = self.waiting.iter().filter_map(|(slug, _)| self.refuses(slug, routing, load));
        reasons.fold(BTreeMap::new(), |mut held, reason| {
            *held.entry(reason).or_default() += 1;
            held
        })
    }

    /// The session's start is over: from now on the registry tells whether it is
    /// open.
    pub fn entered(&mut self, slug: &Slug) {
        self.entering.remove(slug);
    }

    /// The session is closed or given up: it waits for nothing.
    pub fn left(&mut self, slug: &Slug) {
        self.entering.remove(slug);
        self.waiting.retain(|(waiting, _)| waiting != slug);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::config::ByteSize;

    fn slug(number: usize) -> Slug {
        format!("o+r+{number}").parse().unwrap()
    }

    fn open(numbers: impl IntoIterator<Item = usize>) -> BTreeSet<Slug> {
        numbers.into_iter().map(slug).collect()
    }

    fn load(open: &BTreeSet<Slug>) -> Load<'_> {
        Load { open, free_memory: Some(100_000_000) }
    }

    #[test]
    fn no_more_sessions_are_open_than_may_be_and_the_first_to_wait_is_next() {
        let routing = Routing { max_sessions: 2, ..Routing::default() };
        let mut admission = Admission::default();
        let none = open([]);
        // Two that are let in at the same time take both places.
        assert_eq!(admission.admit(&slug(1), &routing, &load(&none)), None);
        assert_eq!(admission.admit(&slug(2), &routing, &load(&none)), None);
        let full = Some(Reason::SessionsFull);
        assert_eq!(admission.admit(&slug(3), &routing, &load(&none)), full);
        assert_eq!(admission.admit(&slug(4), &routing, &load(&none)), full);
        // Asking again takes no second place.
        assert_eq!(admission.admit(&slug(1), &routing, &load(&none)), None);
        admission.entered(&slug(1));
        admission.entered(&slug(2));
        let both = open([1, 2]);
        assert_eq!(admission.admit(&slug(2), &routing, &load(&both)), None);
        admission.entered(&slug(2));
        assert_eq!(admission.admit(&slug(3), &routing, &load(&both)), full);
        // One place becomes free: it is not the younger one's.
        let one = open([2]);
        assert_eq!(admission.admit(&slug(4), &routing, &load(&one)), full);
        assert_eq!(admission.admit(&slug(3), &routing, &load(&one)), None);
        // Whoever gives up keeps nobody waiting.
        admission.entered(&slug(3));
        let two = open([2, 3]);
        assert_eq!(admission.admit(&slug(5), &routing, &load(&two)), full);
        admission.left(&slug(4));
        assert_eq!(admission.admit(&slug(5), &routing, &load(&one)), None);
    }

    #[test]
    fn what_holds_a_start_back_is_judged_anew() {
        let few = Routing { max_sessions: 1, ..Routing::default() };
        let mut admission = Admission::default();
        let one = open([1]);
        assert_eq!(admission.admit(&slug(2), &few, &load(&one)), Some(Reason::SessionsFull));
        assert!(!admission.has_news(&slug(2), &few, &load(&one)));
        assert_eq!(admission.held(&few, &load(&one)), [(Reason::SessionsFull, 1)].into());
        let yaml = "routing: {memoryFloor: 1GB}";
        let low = crate::core::config::parse(yaml, std::path::Path::new("x")).unwrap().routing;
        assert!(admission.has_news(&slug(2), &low, &load(&one)));
        assert_eq!(admission.held(&low, &load(&one)), [(Reason::MemoryLow, 1)].into());
        assert_eq!(admission.admit(&slug(2), &low, &load(&one)), Some(Reason::MemoryLow));
        assert!(!admission.has_news(&slug(2), &low, &load(&one)));
        assert!(admission.held(&Routing::default(), &load(&one)).is_empty());
    }

    #[test]
    fn with_little_memory_nothing_starts() {
        let floor = |bytes| {
            let routing = format!("routing: {{memoryFloor: {bytes}}}");
            crate::core::config::parse(&routing, std::path::Path::new("x")).unwrap().routing
        };
        let mut admission = Admission::default();
        let known = open([1]);
        let low = Some(Reason::MemoryLow);
        assert_eq!(admission.admit(&slug(1), &floor("1GB"), &load(&known)), low);
        assert_eq!(admission.admit(&slug(1), &floor("1MB"), &load(&known)), None);
        let untold = Load { open: &known, free_memory: None };
        assert_eq!(admission.admit(&slug(2), &floor("1GB"), &untold), None);
        assert_eq!(floor("0").memory_floor, ByteSize::default());
    }
}
