//! Shows those who look at a session how many events wait for it.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::base::ids::Slug;
use crate::host::runner::Runners;

/// How many events there are for each session that has some.
pub(super) type Counts = BTreeMap<Slug, usize>;

/// What is told within this time is not shown to wait.
const SETTLES_WITHIN: Duration = Duration::from_secs(1);

/// Shows the counts as they change, until `stop`.
pub(super) async fn show(
    runner: Runners,
    mut counts: watch::Receiver<Counts>,
    stop: CancellationToken,
) {
    let work = async {
        runner.hide_all_waiting().await;
        let mut shown = Counts::new();
        while counts.changed().await.is_ok() {
            tokio::time::sleep(SETTLES_WITHIN).await;
            let now = counts.borrow_and_update().clone();
            let gone = shown.keys().filter(|slug| !now.contains_key(slug));
            let mut changed: Counts = gone.map(|slug| (slug.clone(), 0)).collect();
            let is_new = |(slug, number): &(&Slug, &usize)| shown.get(slug) != Some(number);
            changed.extend(now.iter().filter(is_new).map(|(slug, n)| (slug.clone(), *n)));
            if !changed.is_empty() {
                runner.show_waiting(&changed).await;
            }
            shown = now;
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = work => {}
    }
}
