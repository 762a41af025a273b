//! The lines of a screen of some size.

use std::ops::RangeInclusive;

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use super::content::Content;
use super::state::ScreenState;
use crate::report::{RowLines, Terminal, escaped};

const HINTS: &str = "? help   q quit   Enter why   g by   s sort   / filter   ← → time   space hold";

/// The lines from the top of the screen to its bottom. Remembers which row is in which line, and where the body begins.
pub(super) fn lines(state: &mut ScreenState, content: &mut Content, height: usize, terminal: Terminal) -> Vec<String> {
    let width = usize::from(terminal.width.unwrap_or(0));
    let heading = Some(&content.heading).filter(|heading| !heading.is_empty());
    let fitted = |line: &str| fitted(&format!(" {line}"), width);
    let mut lines: Vec<_> = content.title.iter().chain(heading).map(|line| fitted(line)).collect();
    lines.truncate(height.saturating_sub(2));
    if terminal.has_color {
        let is_strong = |place: &usize| *place == 0 || *place >= content.title.len();
        let strong = lines.iter_mut().enumerate().filter(|(place, _)| is_strong(place));
        strong.for_each(|(_, line)| *line = format!("\x1b[1m{line}\x1b[0m"));
    }
    let rows = content.rows.iter().enumerate();
    let of_row = |(row, of_row): (usize, &RowLines)| {
        of_row.lines.iter().flat_map(|line| line.split('\n')).map(|line| (row, fitted(line))).collect::<Vec<_>>()
    };
    let body: Vec<_> = rows.flat_map(of_row).collect();
    state.visible_lines = height.saturating_sub(lines.len() + 1);
    let selected = content.selectable().find(|(_, path)| Some(*path) == state.selected.as_deref()).map(|(row, _)| row);
    // Below the last group are lines that cannot be selected.
    let is_last = |row: usize| content.selectable().all(|(other, _)| other <= row);
    let shown = selected.map(|row| row..=if is_last(row) { content.rows.len() } else { row });
    state.offset = offset(state.offset, &body, shown, state.visible_lines);
    content.rows_of_lines = vec![None; lines.len()];
    for (row, line) in body.iter().skip(state.offset).take(state.visible_lines) {
        content.rows_of_lines.push(Some(*row));
        let blanks = " ".repeat(width.saturating_sub(line.width()));
        lines.push(if Some(*row) == selected { format!("\x1b[7m{line}{blanks}\x1b[0m") } else { line.clone() });
    }
    lines.resize(height.saturating_sub(1), String::new());
    let prompt = state.prompt.as_ref().map(|text| format!("/{text}\u{2588}"));
    lines.push(fitted(prompt.as_ref().or(state.message.as_ref()).map_or(HINTS, String::as_str)));
    lines
}

/// The beginning of a line that has room. All text of the screen passes here, so that none of it steers the terminal.
fn fitted(line: &str, width: usize) -> String {
    let line = escaped(line);
    let mut left = width;
    let fits = |part: &&str| left.checked_sub(part.width()).map(|rest| left = rest).is_some();
    line.graphemes(true).take_while(fits).collect()
}

/// Returns the number of the first visible line of the body: `before`, unless the rows `shown`, or no line at all, would be hidden. The
/// first row of `shown` is visible in any case.
fn offset(
    before: usize,
    body: &[(usize, String)],
    shown: Option<RangeInclusive<usize>>,
    visible_lines: usize,
) -> usize {
    let mut offset = before;
    let is_shown = |(row, _): &(usize, String)| shown.as_ref().is_some_and(|shown| shown.contains(row));
    if let Some(first) = body.iter().position(is_shown) {
        let last = body.iter().rposition(is_shown).unwrap_or(first);
        offset = offset.max((last + 1).saturating_sub(visible_lines)).min(first);
    }
    offset.min(body.len().saturating_sub(visible_lines))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::compare::{CompareOptions, GroupBy, show};
    use crate::model::{CtprofSnapshot, HostContext, ThreadState, WindowInfo};
    use crate::top::fill::content;
    use crate::top::state::View;

    /// Returns a window of two seconds with threads of these names. Each ran as long as the first, and waited.
    fn window(names: &[&str]) -> CtprofSnapshot {
        let thread = |(tid, name): (u32, &&str)| {
            let mut thread = ThreadState { pcomm: (*name).into(), comm: (*name).into(), ..ThreadState::default() };
            (thread.tid, thread.tgid) = (tid, tid);
            (thread.metrics.run_time_ns, thread.metrics.wait_time_ns) =
                (Some(1_000_000_000.into()), Some(7_000_000.into()));
            thread
        };
        let threads = (1..).zip(names).map(thread).collect();
        let mut window = CtprofSnapshot { threads, ..CtprofSnapshot::default() };
        let info = WindowInfo {
            duration_ns: 2_000_000_000,
            started_at_unix_ns: 1_700_000_000_000_000_000,
            ..WindowInfo::default()
        };
        window.head.window = Some(info);
        window
    }

    fn drawn(state: &mut ScreenState, window: &CtprofSnapshot, size: (u16, usize)) -> Vec<String> {
        let terminal = Terminal { width: Some(size.0), has_color: false };
        let body = Terminal { width: Some(size.0 - 1), ..terminal };
        let report = show(window, &state.options());
        let mut content = content(state, (window, &report), crate::report::UserNames::new(), body);
        lines(state, &mut content, size.1, terminal)
    }

    fn state() -> ScreenState {
        let mut options = CompareOptions::default();
        options.grouping.axis = GroupBy::Tid;
        ScreenState::new(options, Duration::from_secs(2))
    }

    #[test]
    fn no_name_breaks_the_screen_whatever_its_size() {
        let names = ["\x1b[2J\x1b]0;title\x07", "日本語の名前のスレッド", "a\r\nb\tc", "e\u{301}\u{202e}abc", "worker"];
        let mut window = window(&names);
        window.head.host = Some(HostContext { hostname: Some(names[0].to_owned()), ..HostContext::default() });
        let groups = ["worker[5]".to_owned(), format!("{}[1]", names[0])].map(|name| View::Group(vec![name]));
        for (view, width) in [View::Groups, View::Help]
            .into_iter()
            .chain(groups)
            .flat_map(|view| (40..=250).step_by(7).map(move |width| (view.clone(), width)))
        {
            let mut state = state();
            state.view = view;
            for height in [1, 2, 5, 24] {
                let lines = drawn(&mut state, &window, (width, height));
                assert_eq!(lines.len(), height);
                for line in lines.iter().map(|line| line.replace("\x1b[7m", "").replace("\x1b[0m", "")) {
                    assert!(!line.contains(|c: char| c.is_control() || c == '\u{202e}'), "{line:?}");
                    assert!(line.width() <= width.into(), "{width}: {line}");
                }
            }
        }
    }

    #[test]
    fn no_text_of_the_screen_steers_the_terminal_wherever_it_comes_from() {
        let raw = || "a\x1b[2Jb\u{202e}".to_owned();
        let row = || RowLines { path: Vec::new(), lines: vec![raw(), raw()] };
        let mut content =
            Content { title: vec![raw(), raw()], heading: raw(), rows: vec![row()], ..Content::default() };
        for (prompt, message) in [(Some(raw()), None), (None, Some(raw()))] {
            let mut state = state();
            (state.prompt, state.message) = (prompt, message);
            let drawn = lines(&mut state, &mut content, 6, Terminal { width: Some(80), has_color: false });
            assert!(drawn.iter().all(|line| line.contains("a\\u{1b}[2Jb\\u{202e}")), "{drawn:#?}");
        }
    }

    #[test]
    fn behind_the_last_group_is_what_the_table_does_not_show() {
        let names: Vec<_> = (0..30).map(|number| format!("group{}", char::from(b'a' + number))).collect();
        let window = window(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let mut state = state();
        let hidden = |lines: &[String]| lines.iter().any(|line| line.contains("not available: "));
        assert!(!hidden(&drawn(&mut state, &window, (80, 12))));
        let last = format!("{}[30]", names.last().unwrap());
        state.selected = Some(vec![last.clone()]);
        let end = drawn(&mut state, &window, (80, 12));
        assert!(hidden(&end) && end.iter().any(|line| line.contains(&last)), "{end:#?}");
    }

    #[test]
    fn the_selected_group_stays_on_the_screen_with_its_lines() {
        let names: Vec<_> = (0..50).map(|number| format!("pool-{number}")).collect();
        let window = window(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let mut state = state();
        let shown = |state: &mut ScreenState, name: &str| {
            state.selected = Some(vec![name.to_owned()]);
            let lines = drawn(state, &window, (80, 12));
            lines.iter().position(|line| line.starts_with("\x1b[7m")).map(|line| lines[line].contains(name))
        };
        for name in ["pool-0[1]", "pool-49[50]", "pool-25[26]", "pool-0[1]"] {
            assert_eq!(shown(&mut state, name), Some(true), "{name}");
        }
        assert_eq!(shown(&mut state, "gone"), None);
    }
}
