//! Columns of text that fit a terminal: long names are cut in the middle, columns are left out from
//! the right, no line wraps.

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use super::escaped;
use crate::model::sorted::Arrange;

/// How a column shrinks if the table is too wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ColumnShape {
    /// A number or another value: right-aligned, and cut in the middle only if it is no number.
    Number,
    /// A number of at most so many columns, how it changed, both of at most so many, and words after these: right-aligned, and
    /// cut after a part.
    Count { number: usize, changes: usize },
    /// A word: never cut.
    Whole,
    /// A name: cut in the middle, because its ends are the most significant.
    Name,
    /// A sentence: cut at its end.
    Prose,
    /// A few words, in which the first matter most: cut at their end.
    Phrase,
}

impl ColumnShape {
    /// The widest column of a table that is not for a terminal: every row is padded to it. Words and sentences are those
    /// of ctprof; other texts come from files.
    fn widest(self) -> usize {
        if matches!(self, Self::Whole | Self::Prose) { usize::MAX } else { LONGEST_TEXT }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Head<'h> {
    pub(super) text: &'h str,
    pub(super) shape: ColumnShape,
    /// Columns with the largest number are left out first, of equal ones the last; those without one stay.
    pub(super) dispensable: Option<usize>,
}

/// Names are cut further rather than to leave out columns whose [`Head::dispensable`] is below this.
pub(super) const CORE: usize = 8;

/// Paths of cgroups are rarely longer. Files can have names of 16 KiB.
const LONGEST_TEXT: usize = 256;
/// Names are cut to this before a column is left out.
const SHORT_NAME: usize = 20;
/// And to this before one of the core is.
const SHORTER_NAME: usize = 12;
const SHORT_PROSE: usize = 24;
/// The minimum width of a few words, with the direction of a verdict: `sleep: 109.0% worse`.
const SHORT_PHRASE: usize = 20;
/// Columns of ` by ` and some letters of a parent's name.
const SHORT_PARENT: usize = 8;
/// Names are cut to this if no more columns can be left out.
const SHORTEST_NAME: usize = 3;
pub(super) const GAP: usize = 2;

/// The lines of a heading and of rows, whose texts are escaped, and the columns left out. The last column of a row has its tone, a code of Select
/// Graphic Rendition.
pub(super) fn lines<'h>(
    heads: &[Head<'h>],
    rows: &[Vec<String>],
    tones: &[Option<&str>],
    width: Option<u16>,
) -> (Vec<String>, Vec<&'h str>) {
    let mut widths: Vec<usize> = heads.iter().map(|head| head.text.width()).collect();
    let plain = |row: &Vec<String>| row.iter().map(|text| escaped(text).into_owned()).collect();
    let rows: Vec<Vec<String>> = rows.iter().map(plain).collect();
    for row in &rows {
        for (width, text) in widths.iter_mut().zip(row) {
            *width = (*width).max(text.width());
        }
    }
    let widths = match width {
        Some(width) => fitted(&widths, heads, width.into()),
        None => widths.iter().zip(heads).map(|(width, head)| Some(head.shape.widest().min(*width))).collect(),
    };
    let headings: Vec<String> = heads.iter().map(|head| head.text.to_owned()).collect();
    let tones = [None].into_iter().chain(tones.iter().copied()).chain(std::iter::repeat(None));
    let lines =
        [&headings].into_iter().chain(&rows).zip(tones).map(|(row, tone)| line(row, heads, &widths, tone)).collect();
    let shown = widths.iter().copied().chain(std::iter::repeat(None));
    (lines, heads.iter().zip(shown).filter(|(_, width)| width.is_none()).map(|(head, _)| head.text).collect())
}

/// The widths of the columns that fit; `None` for those left out.
fn fitted(natural: &[usize], heads: &[Head<'_>], available: usize) -> Vec<Option<usize>> {
    let mut widths: Vec<Option<usize>> = natural.iter().copied().map(Some).collect();
    let mut optional: Vec<usize> = (0..heads.len()).filter(|at| heads[*at].dispensable.is_some()).collect();
    optional.arrange_by_key(|at| heads[*at].dispensable);
    loop {
        let mut narrow = widths.clone();
        cut_counts(&mut narrow, heads, available, |_, changes| changes);
        shrink(&mut narrow, heads, ColumnShape::Prose, SHORT_PROSE, available);
        shrink(&mut narrow, heads, ColumnShape::Phrase, SHORT_PHRASE, available);
        shrink(&mut narrow, heads, ColumnShape::Name, SHORT_NAME, available);
        if optional.last().and_then(|at| heads[*at].dispensable).is_none_or(|rank| rank < CORE) {
            shrink(&mut narrow, heads, ColumnShape::Name, SHORTER_NAME, available);
            cut_counts(&mut narrow, heads, available, |number, _| number);
        }
        if total(&narrow) <= available {
            return narrow;
        }
        match optional.pop() {
            Some(at) => widths[at] = None,
            None => break,
        }
    }
    cut_counts(&mut widths, heads, available, |number, _| number);
    for shape in [ColumnShape::Prose, ColumnShape::Phrase, ColumnShape::Name, ColumnShape::Whole] {
        shrink(&mut widths, heads, shape, SHORTEST_NAME, available);
    }
    while total(&widths) > available && widths.len() > 1 {
        widths.pop();
    }
    if let [Some(first)] = widths.as_mut_slice() {
        *first = available.min(*first);
    }
    widths
}

/// Cuts what follows the `least` part of counts, of their number and their changes, until the table fits or there is nothing more.
fn cut_counts(widths: &mut [Option<usize>], heads: &[Head<'_>], available: usize, least: fn(usize, usize) -> usize) {
    for (at, head) in heads.iter().enumerate() {
        let excess = total(widths).saturating_sub(available);
        if let (ColumnShape::Count { number, changes }, Some(width)) = (head.shape, &mut widths[at]) {
            *width = width.saturating_sub(excess).max(least(number, changes).max(head.text.width()).min(*width));
        }
    }
}

/// Narrows the widest columns of a shape until the table fits or they have the width `least`.
fn shrink(widths: &mut [Option<usize>], heads: &[Head<'_>], shape: ColumnShape, least: usize, available: usize) {
    let mut excess = total(widths).saturating_sub(available);
    while excess > 0 {
        let of_shape = (0..widths.len()).filter(|at| heads[*at].shape == shape);
        let widest = of_shape.max_by_key(|at| widths[*at]).and_then(|at| widths[at].as_mut());
        let Some(widest) = widest.filter(|width| **width > least) else { return };
        *widest -= 1;
        excess -= 1;
    }
}

/// Text as lines of at most `width` columns, split at spaces; lines after the first are indented by
/// `indent` spaces.
pub(super) fn folded(text: &str, indent: usize, width: Option<u16>) -> String {
    let available = width.map_or(usize::MAX, |width| usize::from(width).saturating_sub(indent).max(SHORT_PROSE));
    let mut lines = String::new();
    let mut used = 0;
    for word in text.split_inclusive(' ') {
        if used > 0 && used + word.trim_end().width() > available {
            lines.truncate(lines.trim_end().len());
            lines.push('\n');
            lines.extend(std::iter::repeat_n(' ', indent));
            used = 0;
        }
        lines.push_str(word);
        used += word.width();
    }
    lines
}

fn total(widths: &[Option<usize>]) -> usize {
    let shown = widths.iter().flatten();
    shown.clone().sum::<usize>() + GAP * shown.count().saturating_sub(1)
}

fn line(row: &[String], heads: &[Head<'_>], widths: &[Option<usize>], tone: Option<&str>) -> String {
    let mut line = String::new();
    for (place, ((text, head), width)) in row.iter().zip(heads).zip(widths).enumerate() {
        let Some(width) = *width else { continue };
        let mut text = cut(text, head.shape, width);
        let blanks = " ".repeat(width - text.width().min(width));
        if let Some(tone) = tone.filter(|_| place + 1 == heads.len() && !text.is_empty()) {
            text = format!("\x1b[{tone}m{text}\x1b[0m");
        }
        match head.shape {
            ColumnShape::Number | ColumnShape::Count { .. } => line.extend([blanks.as_str(), &text]),
            _ => line.extend([&text, blanks.as_str()]),
        }
        line.extend([" "; GAP]);
    }
    line.truncate(line.trim_end().len());
    line
}

/// The text cut to a width, with `…` in place of what is left out.
fn cut(text: &str, shape: ColumnShape, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let available = width.saturating_sub(1);
    if let ColumnShape::Count { .. } = shape {
        let (counts, _) = text.split_once(" by ").unwrap_or((text, ""));
        if counts.width() > width {
            return counts.split(" (").next().unwrap_or_default().to_owned();
        }
        if width < counts.width() + SHORT_PARENT {
            return counts.to_owned();
        }
    }
    let is_cut_at_end = matches!(shape, ColumnShape::Prose | ColumnShape::Phrase | ColumnShape::Count { .. });
    let back = if is_cut_at_end { 0 } else { available / 2 };
    let front = taken(text.graphemes(true), available - back);
    let back = taken(text.graphemes(true).rev(), back);
    format!("{}…{}", front.concat(), back.into_iter().rev().collect::<String>())
}

fn taken<'t>(graphemes: impl Iterator<Item = &'t str>, width: usize) -> Vec<&'t str> {
    let mut left = width;
    let fits = |grapheme: &&str| {
        let wide = grapheme.width();
        let fits = wide <= left;
        left = left.saturating_sub(wide);
        fits
    };
    graphemes.take_while(fits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUP: Head<'_> = Head { text: "group", shape: ColumnShape::Name, dispensable: None };
    const METRIC: Head<'_> = Head { text: "metric", shape: ColumnShape::Name, dispensable: None };
    const VALUE: Head<'_> = Head { text: "value", shape: ColumnShape::Number, dispensable: None };
    const THREADS: Head<'_> = Head { text: "threads", shape: ColumnShape::Number, dispensable: Some(CORE) };
    const DELTA: Head<'_> = Head { text: "delta", shape: ColumnShape::Number, dispensable: Some(CORE) };
    const MEANING: Head<'_> = Head { text: "meaning", shape: ColumnShape::Prose, dispensable: Some(CORE) };

    fn written(heads: &[Head<'_>], rows: &[&[&str]], width: Option<u16>) -> String {
        let rows: Vec<Vec<String>> =
            rows.iter().map(|row| row.iter().map(|text| (*text).to_owned()).collect()).collect();
        lines(heads, &rows, &[], width).0.iter().map(|line| format!("{line}\n")).collect()
    }

    #[test]
    fn a_very_long_name_makes_no_other_row_long() {
        let long = "n".repeat(16 << 10);
        let text = written(&[GROUP, VALUE], &[&[&long, "1"], &["short", "2"]], None);
        assert!(text.lines().all(|line| line.chars().count() == LONGEST_TEXT + GAP + "value".len()), "{text}");
    }

    #[test]
    fn wide_and_combining_characters_keep_columns_aligned() {
        let rows: &[&[&str]] = &[&["日本", "1"], &["e\u{301}", "22"], &["abcd", "3"]];
        assert_eq!(
            written(&[GROUP, VALUE], rows, None),
            "group  value\n日本       1\ne\u{301}         22\nabcd       3\n"
        );
    }

    #[test]
    fn names_are_cut_in_the_middle_then_columns_are_left_out_from_the_right() {
        let rows: &[&[&str]] = &[&["a-very-long-name-of-a-pool", "12", "wait_time_ns", "1.25ms", "+3.1ms"]];
        let heads = [GROUP, THREADS, METRIC, VALUE, DELTA];
        let row = |width| written(&heads, rows, Some(width)).lines().nth(1).unwrap().to_owned();
        assert_eq!(row(80), "a-very-long-name-of-a-pool       12  wait_time_ns  1.25ms  +3.1ms");
        assert_eq!(row(60), "a-very-lon…-of-a-pool       12  wait_time_ns  1.25ms  +3.1ms");
        assert_eq!(row(55), "a-very-long-…e-of-a-pool       12  wait_time_ns  1.25ms");
        assert_eq!(row(40), "a-very-lo…f-a-pool  wait_time_ns  1.25ms");
    }

    #[test]
    fn words_after_a_count_make_way_for_columns() {
        let count = Head { text: "threads", shape: ColumnShape::Count { number: 1, changes: 9 }, dispensable: Some(2) };
        let row: &[&str] = &["sh", "0 (+6 −6) by a-very-long-name-of-a-parent", "12%", "+3%"];
        let narrow = |width| written(&[GROUP, count, VALUE, DELTA], &[row], Some(width));
        assert_eq!(narrow(40).lines().nth(1).unwrap(), "sh     0 (+6 −6) by a-ver…    12%    +3%");
        assert_eq!(narrow(30).lines().nth(1).unwrap(), "sh     0 (+6 −6)    12%    +3%");
        let core = written(&[GROUP, count, VALUE], &[&row[..3]], Some(21));
        assert_eq!(core.lines().nth(1).unwrap(), "sh           0    12%", "then how it changed");
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_and_the_value_stays_to_the_last() {
        let rows: &[&[&str]] =
            &[&["a-very-long-name-of-a-pool", "7", "nonvoluntary_csw", "1.25ms", "2.5ms", "a sentence of words"]];
        for width in 1..120 {
            let table = written(&[GROUP, THREADS, METRIC, VALUE, DELTA, MEANING], rows, Some(width));
            assert!(table.lines().all(|line| line.width() <= width.into()), "{width}:\n{table}");
            assert_eq!(table.contains("1.25ms"), width >= 16, "{width}:\n{table}");
        }
    }

    #[test]
    fn facts_are_folded_at_spaces_below_their_beginning() {
        assert_eq!(folded("one two three four five six seven", 2, Some(26)), "one two three four five\n  six seven");
        assert_eq!(folded("one two", 2, None), "one two");
        let long = "x".repeat(60);
        assert_eq!(folded(&format!("{long} {long}"), 0, Some(30)), format!("{long}\n{long}"));
    }

    #[test]
    fn a_sentence_is_cut_at_its_end_and_whole_words_are_not_cut() {
        let rows: &[&[&str]] = &[&["nr_failed_migrations_running", "Moves refused because the thread was running."]];
        let metric = Head { shape: ColumnShape::Whole, ..METRIC };
        let table = written(&[metric, MEANING], rows, Some(60));
        assert!(table.contains("nr_failed_migrations_running  Moves refused because the thr…"), "{table}");
        assert!(written(&[metric, MEANING], rows, Some(40)).ends_with("nr_failed_migrations_running\n"));
    }
}
