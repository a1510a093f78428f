//! What holds in whatever order things happen.

use proptest::prelude::*;

use super::*;

/// How many headless turns run.
fn headless(dispatcher: &Dispatcher) -> usize {
    let delivers = |session: &&Session| session.doing == Doing::Delivering;
    dispatcher.sessions.values().filter(delivers).filter(|session| session.holds_start).count()
}

/// What a driver may do next, chosen by the property test.
fn answer(command: &Command, roll: u8) -> Option<Input> {
    let failure =
        StartFailure { reason: Reason::TmuxFailed, detail: String::new(), transient: roll < 60 };
    match command {
        Command::Start(slug) | Command::TakeUp(slug) if roll < 40 => {
            Some(Input::Started(slug.clone(), Err(failure)))
        }
        Command::Start(slug) | Command::TakeUp(slug) if roll < 60 => {
            Some(Input::Started(slug.clone(), Ok(Hosting::Held(Reason::SessionPaused))))
        }
        Command::Start(slug) | Command::TakeUp(slug) => {
            let hosting = if roll.is_multiple_of(2) { Hosting::Live } else { Hosting::Headless };
            Some(Input::Started(slug.clone(), Ok(hosting)))
        }
        Command::Deliver(slug, _) => {
            let ended = match roll {
                0..20 => Delivered::Ended(Outcome::Gone),
                20..30 => Delivered::Broken(String::new()),
                30..40 => Delivered::Ended(Outcome::Unproven),
                40..50 => {
                    Delivered::NeverBegan { reason: Reason::HarnessExited, detail: String::new() }
                }
                _ => Delivered::Ended(Outcome::Accepted),
            };
            Some(Input::Delivered(slug.clone(), ended))
        }
        // Those whose agents are there are counted by the examples.
        Command::Look(slug) => Some(Input::Looked(slug.clone(), false)),
        Command::Close(slug) => Some(Input::Closed(slug.clone(), Ok(()))),
        Command::AwaitRelease(slug) | Command::Pause(slug, _) => Some(Input::Woke(slug.clone())),
        Command::Gather(slug, delivery, _) => Some(Input::Gathered(slug.clone(), delivery.clone())),
        Command::CallOff(_) | Command::GiveWay(_) | Command::Record { .. } => None,
    }
}

proptest! {
    #[test]
    fn under_any_interleaving_order_holds_and_everything_ends(
        jobs in prop::collection::vec((1_u64..4, 0_u8..20), 1..30),
        rolls in prop::collection::vec((any::<u8>(), any::<prop::sample::Index>()), 400),
    ) {
        let mut dispatcher = Dispatcher::new(2);
        let mut pending: Vec<Command> = Vec::new();
        // The order in which deliveries were first offered: of the urgent ones,
        // and of the others.
        let mut offered: BTreeMap<(Slug, bool), Vec<usize>> = BTreeMap::new();
        let mut ended: BTreeMap<DeliveryId, State> = BTreeMap::new();
        let is_urgent = |number: usize| (2..6).contains(&jobs[number].1);
        let mut jobs_in = jobs.iter().enumerate();
        let mut rolls = rolls.iter().cycle();
        for _ in 0..10_000 {
            let (roll, index) = rolls.next().unwrap();
            let input = if *roll % 3 == 0 && let Some((number, (session, kind))) = jobs_in.next() {
                let task = if *kind < 2 { Task::Close(Reason::ItemClosed) } else { Task::Deliver };
                let job = Job::new(id(&number.to_string()), slug(*session), task);
                let (now, gathers) = (is_urgent(number), *kind > 15);
                Input::Enqueued(Job { now, gathers, bytes: usize::from(*roll) * 50, ..job })
            } else if pending.is_empty() {
                if jobs_in.len() == 0 { break }
                continue;
            } else {
                let command = pending.remove(index.index(pending.len()));
                let delivering = |slug: &Slug| {
                    pending.iter().any(|c| matches!(c, Command::Deliver(s, _) if s == slug))
                };
                match &command {
                    // Whether there is time for it, chance decides.
                    Command::GiveWay(slug) if *roll < 128 && delivering(slug) => {
                        let slug = slug.clone();
                        pending.retain(|c| !matches!(c, Command::Deliver(s, _) if *s == slug));
                        Input::Delivered(slug, Delivered::GaveWay)
                    }
                    Command::Start(slug) if *roll == 255 => {
                        let slug = slug.clone();
                        pending.push(command);
                        Input::Released(slug)
                    }
                    _ => match answer(&command, *roll) { Some(input) => input, None => continue },
                }
            };
            for command in dispatcher.handle(input) {
                match &command {
                    Command::Record { delivery, state, .. } if state.is_final() => {
                        prop_assert!(ended.insert(delivery.clone(), *state).is_none(), "ended twice");
                    }
                    Command::Deliver(slug, batch) => {
                        prop_assert!((1..=10).contains(&batch.deliveries.len()));
                        for delivery in &batch.deliveries {
                            prop_assert!(!ended.contains_key(delivery));
                            let number: usize = delivery.as_str().parse().unwrap();
                            let key = (slug.clone(), is_urgent(number));
                            let order = offered.entry(key).or_default();
                            if !order.contains(&number) {
                                order.push(number);
                            }
                            prop_assert!(order.is_sorted(), "order was lost: {order:?}");
                        }
                    }
                    _ => {}
                }
                pending.push(command);
            }
            let running = pending.iter().filter(|c| matches!(c, Command::Start(_))).count()
                + headless(&dispatcher);
            prop_assert!(running <= 2, "more starts than allowed");
        }
        prop_assert_eq!(ended.len(), jobs.len(), "some deliveries never ended");
        prop_assert_eq!(dispatcher.waiting().count(), 0);
    }
}
