//! Reasons as folded stacks, which flame graph tools read: `group;class;function;…;system call;kernel function;… microseconds`.

use std::collections::HashSet;
use std::io::{self, Write};

use super::escaped;
use crate::compare::{Group, GroupReason, Report};
use crate::model::{Cell, CodeFunction, ReasonClass, Section};

/// Writes the reasons of all groups but idle ones as folded stacks; of two sides, with the time of each. Errors are those
/// of `out`.
pub fn write_folded(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    for section in report.sections.iter().filter(|section| section.section == Section::Reasons) {
        let above: HashSet<&[String]> =
            section.groups.iter().filter_map(|group| Some(group.key.split_last()?.1)).collect();
        let is_lowest = |group: &Group| !group.is_all() && !above.contains(&group.key[..]);
        for row in section.rows.iter().filter(|row| is_lowest(&section.groups[row.group])) {
            let Some(reason) = row.reason.as_deref().filter(|reason| reason.class != ReasonClass::Idle) else {
                continue;
            };
            let times: Vec<_> = row.values.iter().map(microseconds).collect();
            if times.iter().any(|time| *time > 0) {
                let times = times.iter().map(u64::to_string).collect::<Vec<_>>().join(" ");
                writeln!(out, "{} {times}", frames(&section.groups[row.group], reason).join(";"))?;
            }
        }
    }
    Ok(())
}

/// The names from the group to the innermost function. Semicolons end frames.
fn frames(group: &Group, reason: &GroupReason) -> Vec<String> {
    let class = if reason.class == ReasonClass::CpuQuota { "CPU quota" } else { reason.column().unwrap_or_default() };
    let by = reason.by.iter().map(|by| match reason.class {
        ReasonClass::Wait | ReasonClass::Zombie => reason.place(),
        _ => format!("held by {by}"),
    });
    let program = reason.stack.iter().flat_map(|stack| CodeFunction::all(stack)).rev().map(CodeFunction::label);
    let names = reason.entry.iter().chain(reason.functions.iter().rev()).map(ToString::to_string);
    let object = reason.object.iter().map(|object| format!("on {object}"));
    let all = group.key.iter().cloned().chain([class.to_owned()]).chain(program).chain(names).chain(object).chain(by);
    all.map(|name| escaped(&name.replace(';', ":")).into_owned()).collect()
}

/// A time in nanoseconds; 0 where there is none.
fn microseconds(cell: &Option<Cell>) -> u64 {
    if let Some(Cell::Number(ns)) = cell { ns / 1000 } else { 0 }
}
