//! The reasons of groups as trees: what threads wait for, and below it the functions that led there, from the inside out.

use std::collections::BTreeMap;

use super::code_site::{label, telling};
use super::{GroupReason, Row};
use crate::model::Name;
use crate::model::sorted::Arrange;

/// Functions on one line while there is one caller, and how far out functions are shown.
const FUNCTIONS_PER_LINE: usize = 4;
const FARTHEST: usize = 16;
/// Callers with less than this part of the time of their reason are not shown.
const LEAST_PART: f64 = 0.02;

/// The functions that led to a row's time, the innermost first.
type Stack<'r> = (Vec<Name>, &'r Row);

/// The rows of reasons with whole stacks, as trees. The rows of a group follow each other.
pub(super) fn rows(rows: &[Row]) -> Vec<Row> {
    rows.chunk_by(|a, b| a.group == b.group).flat_map(of_group).collect()
}

fn of_group(rows: &[Row]) -> Vec<Row> {
    let mut roots: BTreeMap<GroupReason, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        let root = row.reason.as_ref().map(|reason| reason.without_functions());
        root.into_iter().for_each(|root| roots.entry(root).or_default().push(row));
    }
    let roots = roots.into_iter().map(|(reason, rows)| (Row::sum_of(&rows, reason.to_string()), rows));
    let mut lines = Vec::new();
    for (root, rows) in largest_first(roots, 0.0) {
        let stacks: Vec<_> = rows.into_iter().map(|row| (stack(row), row)).collect();
        let least = root.amount() * LEAST_PART;
        lines.push(root);
        add_callers(&stacks, (1, 0), least, &mut lines);
    }
    lines
}

fn stack(row: &Row) -> Vec<Name> {
    let stack = row.reason.as_ref().and_then(|reason| reason.stack.as_deref()).unwrap_or_default();
    telling(stack).into_iter().take(FARTHEST).map(label).collect()
}

/// Adds the functions at a place of these stacks, and below each function its callers.
fn add_callers(stacks: &[Stack<'_>], (depth, place): (usize, usize), least: f64, lines: &mut Vec<Row>) {
    let functions = by_function(stacks, place).into_iter().map(|(function, stacks)| {
        let rows: Vec<_> = stacks.iter().map(|(_, row)| *row).collect();
        (Row::sum_of(&rows, function.to_string()), stacks)
    });
    for (mut line, stacks) in largest_first(functions, least) {
        let (mut chain, mut next) = (vec![line.name.to_string()], place + 1);
        while let Some(caller) = only_function(&stacks, next).filter(|_| chain.len() < FUNCTIONS_PER_LINE) {
            chain.push(caller.to_string());
            next += 1;
        }
        line.name = format!("{}{}", "  ".repeat(depth), chain.join(" ← ")).into();
        lines.push(line);
        add_callers(&stacks, (depth + 1, next), least, lines);
    }
}

fn by_function<'s, 'r>(stacks: &'s [Stack<'r>], place: usize) -> BTreeMap<&'s Name, Vec<Stack<'r>>> {
    let mut functions: BTreeMap<&Name, Vec<Stack<'_>>> = BTreeMap::new();
    for (stack, row) in stacks {
        let function = stack.get(place);
        function.into_iter().for_each(|function| functions.entry(function).or_default().push((stack.clone(), row)));
    }
    functions
}

/// The function that all these stacks have at a place.
fn only_function<'s>(stacks: &'s [Stack<'_>], place: usize) -> Option<&'s Name> {
    let first = stacks.first()?.0.get(place)?;
    stacks.iter().all(|(stack, _)| stack.get(place) == Some(first)).then_some(first)
}

fn largest_first<T>(lines: impl Iterator<Item = (Row, T)>, least: f64) -> Vec<(Row, T)> {
    let mut lines: Vec<_> = lines.filter(|(row, _)| row.amount() >= least && row.amount() > 0.0).collect();
    lines.arrange_by(|(a, _), (b, _)| b.amount().total_cmp(&a.amount()));
    lines
}
