//! `the-loop sessions list --trees`: what stands in the work trees.

use serde_json::{Value, json};

use super::{Context, Failure, Loaded, tools};
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
    fn holds(&self) -> String {
        match &self.found {
            None if self.tree.lost => "gone: it was deleted before the close".to_owned(),
            None if self.tree.branch.is_some() => "taken away: it was clean".to_owned(),
            None => "not made yet".to_owned(),
            Some(Ok(None)) => "gone: it was deleted".to_owned(),
            Some(Ok(Some(survey))) => survey.keeps().unwrap_or_else(|| "clean, pushed".to_owned()),
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
    if as_json {
        let trees: Vec<_> = rows.iter().map(json_of).collect();
        let all = json!({ "schema": 1, "trees": trees });
        return Ok(context.printer.data(&crate::cli::json::render(&all))?);
    }
    if rows.is_empty() {
        context.printer.note("no session has a work tree (`routing.workspace.enabled`)");
        return Ok(());
    }
    let lines: Vec<_> = rows
        .iter()
        .map(|row| {
            vec![
                row.record.work_item.reference.short(),
                row.record.status.to_string(),
                visible(row.tree.branch.as_deref().unwrap_or("-")),
                row.holds(),
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

fn json_of(row: &Row<'_>) -> Value {
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
        "underWay": survey.and_then(|survey| survey.under_way.clone()),
        "kept": row.tree.kept,
        "holds": row.holds(),
    })
}
