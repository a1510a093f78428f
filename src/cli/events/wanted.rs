//! Which deliveries a person means, and finding them.

use super::Args;
use crate::base::failure::{Failure, Kind};
use crate::base::ids::{DeliveryId, Slug, WorkItem};
use crate::base::text::{cap, visible};
use crate::cli::Context;
use crate::core::outcome::State;
use crate::state::inbox::{DeliveryHistory, InboxError, InboxReader, Summary};

/// What the ID names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wanted {
    Delivery(DeliveryId),
    Item(WorkItem),
    Session(Slug),
    /// Every item of this number, or the delivery whose id is one.
    Number(u64, Option<DeliveryId>),
    Page(String),
}

impl Wanted {
    pub(super) fn is(&self, delivery: &Summary) -> bool {
        match self {
            Self::Delivery(id) => delivery.id == *id,
            Self::Item(item) => {
                let slug = Some(item.slug());
                delivery.item.as_ref() == Some(item)
                    || delivery.session == slug
                    || delivery.own == slug
            }
            Self::Session(slug) => {
                delivery.item.as_ref().is_some_and(|item| item.slug() == *slug)
                    || [&delivery.session, &delivery.own].contains(&&Some(slug.clone()))
            }
            Self::Number(number, id) => {
                let text = number.to_string();
                let mut slugs = [&delivery.session, &delivery.own].into_iter().flatten();
                delivery.item.as_ref().is_some_and(|item| item.number == *number)
                    || slugs.any(|slug| slug.as_str().rsplit('+').next() == Some(text.as_str()))
                    || id.as_ref() == Some(&delivery.id)
            }
            // An item's own page stands for all that happens there.
            Self::Page(url) => {
                delivery.url.as_ref() == Some(url)
                    || !url.contains('#')
                        && url.parse().is_ok_and(|item| Self::Item(item).is(delivery))
            }
        }
    }

    pub(super) fn parse(text: &str) -> Result<Self, Failure> {
        let text = text.trim();
        if text.contains("://") {
            return Ok(Self::Page(text.to_owned()));
        }
        // As browsers show an address.
        let page = format!("https://{text}");
        if page.parse::<WorkItem>().is_ok() {
            return Ok(Self::Page(page));
        }
        let digits = text.strip_prefix('#').unwrap_or(text);
        if digits.bytes().all(|byte| byte.is_ascii_digit())
            && let Ok(number) = digits.parse()
        {
            // Behind a `#` it is an item's.
            return Ok(Self::Number(number, text.parse().ok().filter(|_| digits == text)));
        }
        // As tmux names its session.
        if let Some(slug) = text.strip_prefix("loop/").and_then(|slug| slug.parse().ok()) {
            return Ok(Self::Session(slug));
        }
        text.parse()
            .map(Self::Delivery)
            .or_else(|_| text.parse().map(Self::Item))
            .or_else(|_| text.parse().map(Self::Session))
            .map_err(|_| {
                Failure::new(
                    Kind::Usage,
                    format!("`{}` names no delivery", visible(&cap(text, 120))),
                )
                .hint("a delivery's id, `'#15'`, `OWNER/REPO#15`, or the URL of an issue or a comment")
            })
    }
}

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) histories: Vec<DeliveryHistory>,
    /// There is something, and all of it is older than was asked for.
    pub(super) older: bool,
}

pub(super) fn find(
    context: &Context,
    reader: &InboxReader,
    wanted: Option<&Wanted>,
    args: &Args,
) -> Result<Found, InboxError> {
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    // The failed ones among an item's are few: look at all, then cut.
    let reach = if args.failed { usize::MAX } else { limit };
    let mut found = match wanted {
        None if args.failed => reader.failed(limit)?,
        None => reader.recent(limit)?,
        Some(Wanted::Delivery(id)) => {
            reader.history(id)?.map(|history| history.delivery).into_iter().collect()
        }
        Some(Wanted::Item(item)) => reader.of_item(item, reach)?,
        Some(Wanted::Session(slug)) => reader.of_slug(slug, reach)?,
        Some(Wanted::Number(_, Some(id))) if reader.history(id)?.is_some() => {
            reader.history(id)?.map(|history| history.delivery).into_iter().collect()
        }
        Some(number @ Wanted::Number(..)) => {
            let mut all = reader.recent(usize::MAX)?;
            all.retain(|delivery| number.is(delivery));
            all
        }
        Some(Wanted::Page(url)) => of_page(context, reader, url, reach)?,
    };
    if args.failed {
        found.retain(|delivery| matches!(delivery.state, State::Failed | State::Unproven));
    }
    let is_any = !found.is_empty();
    if let Some(since) = args.since {
        let since = since.time();
        found.retain(|delivery| delivery.received_at >= since);
    }
    let older = is_any && found.is_empty();
    found.drain(..found.len().saturating_sub(limit));
    // Lists show no steps, and need not read them.
    if wanted.is_none() {
        let bare = |delivery| DeliveryHistory { delivery, steps: Vec::new() };
        let histories = found.into_iter().map(bare).collect();
        return Ok(Found { histories, older });
    }
    let mut histories = Vec::with_capacity(found.len());
    for delivery in found {
        histories.extend(reader.history(&delivery.id)?);
    }
    Ok(Found { histories, older })
}

/// The deliveries of exactly this page; those of its item, when there are none
/// and the page belongs to one.
fn of_page(
    context: &Context,
    reader: &InboxReader,
    url: &str,
    limit: usize,
) -> Result<Vec<Summary>, InboxError> {
    let mut exact = reader.by_url(url)?;
    if exact.is_empty() {
        // GitHub has one comment below a pull request under both.
        let other = if url.contains("/pull/") {
            url.replacen("/pull/", "/issues/", 1)
        } else {
            url.replacen("/issues/", "/pull/", 1)
        };
        exact = reader.by_url(&other)?;
    }
    let Ok(item) = url.parse::<WorkItem>() else { return Ok(exact) };
    let is_item = !url.contains('#');
    if !exact.is_empty() && !is_item {
        return Ok(exact);
    }
    let all = reader.of_item(&item, limit)?;
    if !is_item && !all.is_empty() {
        context.printer.note(&format!(
            "no delivery of exactly this page is recorded; these are of {}",
            item.short()
        ));
    }
    Ok(all)
}
