//! `the-loop sessions list --trees`: what stands in the work trees.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Context, Failure, Loaded, ago, tools};
use crate::base::clock::Clock;
use crate::base::terminal::table;
use crate::base::text::visible;
use crate::core::session::SessionRecord;
use crate::core::workspace::{Survey, WorkTree};
use crate::host::workspace::WorkspaceError;

/// A tree, and what was found in it.
struct Row<'a> {
    record: &'a SessionRecord,
    tree: &'a WorkTree,
    found: Option<Result<Option<Survey>, WorkspaceError>>,
}

impl Row<'_> {
    /// What stands in it that is nowhere else, in a few words.
    fn holds(&self, now: Timestamp) -> String {
        match &self.found {
            None if self.tree.lost => "gone: it was deleted before the close".to_owned(),
            None if self.tree.branch.is_some() => "taken away: it was clean".to_owned(),
            None => "not made yet".to_owned(),
            Some(Ok(None)) => "gone: it was deleted".to_owned(),
            Some(Ok(Some(survey))) => match (survey.keeps(), survey.asked) {
                (Some(why), _) => why,
                (None, None) => "clean, pushed".to_owned(),
                (None, Some(at)) => format!("clean, pushed as of {} ago", ago(at, now)),
            },
            // The reason first: a line of the table has little room.
            Some(Err(WorkspaceError::NotOurs { path, why })) => {
                visible(&format!("{why}: not this session's `{}`", path.display()))
            }
            Some(Err(error)) => visible(&error.to_string()),
        }
    }
}

/// Shows the trees. Only those that are there are looked into, and the origin is
/// not asked.
pub(super) fn run(
    context: &Context,
    loaded: &Loaded,
    records: &[&SessionRecord],
    as_json: bool,
) -> Result<(), Failure> {
    let rows = context.block_on(async { look(context, loaded, records).await })?;
    let now = Clock::System.now();
    if as_json {
        let trees: Vec<_> = rows.iter().map(|row| json_of(row, now)).collect();
        let all = json!({ "schema": 1, "trees": trees });
        return Ok(context.printer.data(&crate::cli::json::render(&all))?);
    }
    if rows.is_empty() {
        let why = if loaded.config.routing.workspace.enabled { " yet" } else { "" };
        let hint = if why.is_empty() { " (`routing.workspace.enabled` is off)" } else { "" };
        context.printer.note(&format!("no session has a work tree{why}{hint}"));
        return Ok(());
    }
    let lines: Vec<_> = rows
        .iter()
        .map(|row| {
            vec![
                row.record.work_item.reference.short(),
                row.record.status.to_string(),
                visible(row.tree.branch.as_deref().unwrap_or("-")),
                row.holds(now),
            ]
        })
        .collect();
    let text = table(&["ITEM", "STATUS", "BRANCH", "HOLDS"], &lines, super::list::WIDTH);
    context.printer.data(text.trim_end())?;
    let root = loaded.paths.workspace(&loaded.config);
    context.printer.note(&format!("the trees are in `{}`", root.display()));
    Ok(())
}

async fn look<'a>(
    context: &Context,
    loaded: &Loaded,
    records: &[&'a SessionRecord],
) -> Result<Vec<Row<'a>>, Failure> {
    let mut rows: Vec<_> = records
        .iter()
        .filter_map(|record| {
            record.work_tree.as_ref().map(|tree| Row { record, tree, found: None })
        })
        .collect();
    if rows.iter().any(|row| row.tree.made) {
        let workspaces = tools::workspaces(context, loaded).await?;
        for row in rows.iter_mut().filter(|row| row.tree.made) {
            row.found = Some(workspaces.look(row.record, row.tree).await);
        }
    }
    Ok(rows)
}

fn json_of(row: &Row<'_>, now: Timestamp) -> Value {
    let survey = row.found.as_ref().and_then(|found| found.as_ref().ok()?.as_ref());
    json!({
        "item": row.record.work_item.reference.short(),
        "status": row.record.status,
        "path": row.record.cwd,
        "branch": row.tree.branch,
        "foreign": row.tree.foreign,
        "made": row.tree.made,
        "exists": matches!(row.found, Some(Ok(Some(_)))),
        "changed": survey.map(|survey| survey.changed),
        "unpushed": survey.map(|survey| survey.unpushed),
        "aside": survey.map(|survey| survey.aside),
        "hidden": survey.map(|survey| survey.hidden),
        "excluded": survey.map(|survey| survey.excluded),
        "inner": survey.and_then(|survey| survey.inner.clone()),
        "unseen": survey.and_then(|survey| survey.unseen.clone()),
        "locked": survey.map(|survey| survey.locked),
        "askedAt": survey.and_then(|survey| survey.asked),
        "underWay": survey.and_then(|survey| survey.under_way.clone()),
        "kept": row.tree.kept,
        "holds": row.holds(now),
    })
}
