//! Choices of the user about the screen, and how keys change them.

use std::time::Duration;

use clap::ValueEnum;

use super::content::Content;
use super::keys::PressedKey;
use crate::compare::{CompareOptions, Form, GroupBy, GroupGlob, SortKey, parse_sort_key};
use crate::model::Section;

/// Lengths of intervals, in milliseconds, that `+` and `-` choose.
const INTERVALS_MS: [u64; 7] = [500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000];

fn intervals() -> impl DoubleEndedIterator<Item = Duration> {
    INTERVALS_MS.into_iter().map(Duration::from_millis)
}

/// Columns that the table has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShownColumns {
    /// The main ones, and their trends.
    Main,
    All,
}

/// Views that can fill the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum View {
    Groups,
    /// Why the time of the group with this path passes, and its threads.
    Group(Vec<String>),
    Help,
}

/// Window that is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// Each new window, as it comes.
    Latest,
    /// The same one, until a key says otherwise.
    Held,
}

/// Request that a key makes of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// To draw the screen.
    Draw,
    /// To report on the window in another way.
    Report,
    /// To group in another way, also what was before.
    Regroup,
    Earlier,
    Later,
    /// To show new windows as they come.
    Latest,
    /// To write the window to a file.
    Write,
    Stop,
    Quit,
}

/// State of the screen: what is shown, and how.
#[derive(Debug)]
pub(super) struct ScreenState {
    /// How reports are made without what keys have chosen.
    base: CompareOptions,
    pub(super) axis: GroupBy,
    /// `None` as long as no key has chosen a column.
    pub(super) sort: Option<&'static str>,
    /// Groups with this text in their names are shown.
    pub(super) filter: String,
    pub(super) columns: ShownColumns,
    pub(super) view: View,
    pub(super) shown: Shown,
    /// The time from one window to the next.
    pub(super) every: Duration,
    /// The path of the selected group.
    pub(super) selected: Option<Vec<String>>,
    /// The first line of the body that is on the screen.
    pub(super) offset: usize,
    /// Number of lines of the body that fit on the screen.
    pub(super) visible_lines: usize,
    /// The filter that is being written.
    pub(super) prompt: Option<String>,
    /// Whether the window on the screen is the first one of a recorder, which is short.
    pub(super) is_first: bool,
    /// Message about the last key, shown until the next one.
    pub(super) message: Option<String>,
}

impl ScreenState {
    pub(super) fn new(base: CompareOptions, every: Duration) -> Self {
        Self {
            axis: base.grouping.axis,
            base,
            sort: None,
            filter: String::new(),
            columns: ShownColumns::Main,
            view: View::Groups,
            shown: Shown::Latest,
            every,
            selected: None,
            offset: 0,
            visible_lines: 1,
            prompt: None,
            is_first: false,
            message: None,
        }
    }

    /// How reports are made.
    pub(super) fn options(&self) -> CompareOptions {
        let mut options = self.base.clone();
        options.grouping.axis = self.axis;
        let selection = &mut options.selection;
        (selection.form, selection.sections) = (Form::Overview, vec![Section::Host, Section::Overview]);
        let is_glob = self.filter.contains(['*', '?']);
        let glob = if is_glob {
            self.filter.replace('[', "[[]")
        } else {
            format!("*{}*", glob::Pattern::escape(&self.filter))
        };
        selection
            .only
            .extend(Some(glob).filter(|_| !self.filter.is_empty()).and_then(|glob| GroupGlob::new(&glob).ok()));
        if let Some(key) = self.sort.and_then(|column| parse_sort_key(column).ok()) {
            selection.sort_by = vec![key];
        }
        options
    }

    /// `only pulse* or web`: the groups that are listed, if not all are.
    pub(super) fn only(&self) -> Option<String> {
        let selected = self.base.selection.only.iter().map(ToString::to_string);
        let only: Vec<_> = selected.chain(Some(self.filter.clone()).filter(|text| !text.is_empty())).collect();
        (!only.is_empty()).then(|| format!("only {}", only.join(" or ")))
    }

    /// Returns the column by which groups are sorted.
    pub(super) fn order(&self) -> &'static str {
        let key = |key: &SortKey| key.by.name();
        self.sort.or_else(|| self.base.selection.sort_by.first().map(key)).unwrap_or("run")
    }

    /// Does what a key says with what is on the screen.
    pub(super) fn press(&mut self, key: PressedKey, content: &Content) -> Request {
        self.message = None;
        if let Some(text) = self.prompt.take() {
            return self.write_filter(text, key);
        }
        match key {
            PressedKey::Char('q') | PressedKey::Control('c') => return Request::Quit,
            PressedKey::Control('z') => return Request::Stop,
            PressedKey::Control('l') => return Request::Report,
            PressedKey::Up | PressedKey::Char('k') => self.step(content, -1),
            PressedKey::Down | PressedKey::Char('j') => self.step(content, 1),
            PressedKey::PageUp => self.step(content, -self.page()),
            PressedKey::PageDown => self.step(content, self.page()),
            PressedKey::Home => self.step(content, isize::MIN),
            PressedKey::End => self.step(content, isize::MAX),
            PressedKey::Click(line) => self.selected = content.path_in(line).map(<[String]>::to_vec),
            PressedKey::Left => return Request::Earlier,
            PressedKey::Right => return Request::Later,
            PressedKey::Char(' ') => return self.hold_or_go_on(),
            PressedKey::Enter if self.view == View::Groups => {
                let first = || content.selectable().next().map(|(_, path)| path.to_vec());
                let is_listed = |path: &Vec<String>| content.selectable().any(|(_, listed)| listed == *path);
                let selected = || self.selected.clone();
                let Some(path) = selected().filter(is_listed).or_else(first).or_else(selected) else {
                    return Request::Draw;
                };
                self.selected = Some(path.clone());
                return self.open(View::Group(path));
            }
            PressedKey::Escape if self.view == View::Groups => return Request::Latest,
            PressedKey::Escape | PressedKey::Enter => return self.open(View::Groups),
            PressedKey::Char('?') => return self.open(View::Help),
            PressedKey::Char('g') => return self.group_by(1),
            PressedKey::Char('G') => return self.group_by(-1),
            PressedKey::Char('s') => return self.sort_by(&content.columns, 1),
            PressedKey::Char('S') => return self.sort_by(&content.columns, -1),
            PressedKey::Char('/') => self.prompt = Some(self.filter.clone()),
            PressedKey::Char('l') => {
                self.columns = if self.columns == ShownColumns::Main { ShownColumns::All } else { ShownColumns::Main };
                return Request::Report;
            }
            PressedKey::Char('+') => self.set_interval(intervals().find(|interval| *interval > self.every)),
            PressedKey::Char('-') => self.set_interval(intervals().rfind(|interval| *interval < self.every)),
            PressedKey::Char('w') => return Request::Write,
            PressedKey::Char(_) | PressedKey::Control(_) | PressedKey::Backspace => {}
        }
        Request::Draw
    }

    fn write_filter(&mut self, mut text: String, key: PressedKey) -> Request {
        match key {
            PressedKey::Enter => {
                self.filter = text;
                self.offset = 0;
                // Trends are of the groups that were listed.
                return Request::Regroup;
            }
            PressedKey::Escape | PressedKey::Control(_) => return Request::Draw,
            PressedKey::Backspace => drop(text.pop()),
            PressedKey::Char(char) => text.push(char),
            _ => {}
        }
        self.prompt = Some(text);
        Request::Draw
    }

    fn hold_or_go_on(&mut self) -> Request {
        if self.shown == Shown::Held {
            return Request::Latest;
        }
        self.shown = Shown::Held;
        Request::Report
    }

    fn open(&mut self, view: View) -> Request {
        (self.view, self.offset) = (view, 0);
        Request::Report
    }

    fn group_by(&mut self, step: isize) -> Request {
        let axes: Vec<_> =
            GroupBy::value_variants().iter().copied().filter(|axis| *axis != GroupBy::CommExact).collect();
        self.axis = next_of(&axes, |axis| *axis == self.axis, step).unwrap_or(self.axis);
        (self.selected, self.view, self.offset) = (None, View::Groups, 0);
        Request::Regroup
    }

    fn sort_by(&mut self, columns: &[&'static str], step: isize) -> Request {
        let order = self.order();
        self.sort = next_of(columns, |column| *column == order, step).or(self.sort);
        self.offset = 0;
        Request::Report
    }

    fn set_interval(&mut self, interval: Option<Duration>) {
        self.every = interval.unwrap_or(self.every);
        self.message = Some(format!("an interval is {:?} from now on", self.every));
    }

    fn page(&self) -> isize {
        isize::try_from(self.visible_lines).unwrap_or(isize::MAX).max(1)
    }

    /// Selects a row further down or up, or where none can be selected, scrolls.
    fn step(&mut self, content: &Content, by: isize) {
        let rows: Vec<_> = content.selectable().map(|(_, path)| path).collect();
        if rows.is_empty() {
            self.offset = self.offset.saturating_add_signed(by);
            return;
        }
        let now = rows.iter().position(|path| Some(*path) == self.selected.as_deref());
        let next = match now {
            Some(now) => now.saturating_add_signed(by).min(rows.len() - 1),
            None if by == isize::MAX => rows.len() - 1,
            None => 0,
        };
        self.selected = Some(rows[next].to_vec());
    }
}

/// The one that is so many places after the one that `is_now`, in a circle; the first one if none is.
fn next_of<T: Copy>(all: &[T], is_now: impl Fn(&T) -> bool, step: isize) -> Option<T> {
    let place = all.iter().position(is_now).map_or(0, |now| (now + all.len()).saturating_add_signed(step));
    all.get(place.checked_rem(all.len())?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::RowLines;

    fn content(names: &[&str]) -> Content {
        let row = |name: &&str| RowLines { path: vec![(*name).to_owned()], lines: vec![(*name).to_owned()] };
        let hidden = RowLines { path: Vec::new(), lines: vec!["2 idle groups".to_owned()] };
        let rows = names.iter().map(row).chain([hidden]).collect();
        Content { rows, columns: vec!["run", "wait", "block"], ..Content::default() }
    }

    fn state() -> ScreenState {
        ScreenState::new(CompareOptions::default(), Duration::from_secs(2))
    }

    fn selected(state: &ScreenState) -> Option<&str> {
        state.selected.as_ref().map(|path| &*path[0])
    }

    #[test]
    fn a_selected_group_stays_selected_where_others_pass_it() {
        let mut state = state();
        state.visible_lines = 2;
        let mut press = |keys: &[PressedKey], names: &[&str]| {
            for key in keys {
                state.press(*key, &content(names));
            }
            selected(&state).map(str::to_owned)
        };
        assert_eq!(press(&[PressedKey::Down], &["a", "b", "c"]).as_deref(), Some("a"));
        assert_eq!(press(&[PressedKey::Down, PressedKey::Char('j')], &["a", "b", "c"]).as_deref(), Some("c"));
        assert_eq!(press(&[PressedKey::Up], &["c", "b", "a"]).as_deref(), Some("c"), "it is the first one now");
        assert_eq!(press(&[PressedKey::PageDown], &["c", "b", "a", "d"]).as_deref(), Some("a"));
        assert_eq!(press(&[PressedKey::Down], &["c", "b", "d"]).as_deref(), Some("c"), "the selected one is gone");
        assert_eq!(press(&[PressedKey::End], &["c", "b", "d"]).as_deref(), Some("d"));
        assert_eq!(press(&[PressedKey::Home], &["c", "b", "d"]).as_deref(), Some("c"));
    }

    #[test]
    fn a_click_selects_what_is_in_the_line() {
        let (mut state, mut content) = (state(), content(&["a", "b"]));
        content.rows_of_lines = vec![None, None, Some(1), Some(1), Some(2)];
        for (line, name) in [(3, Some("b")), (4, None), (2, Some("b")), (0, None), (99, None)] {
            state.press(PressedKey::Click(line), &content);
            assert_eq!(selected(&state), name, "line {line}");
        }
    }

    #[test]
    fn escape_goes_from_a_group_to_all_and_then_to_the_last_window() {
        let mut state = state();
        assert_eq!(state.press(PressedKey::Enter, &content(&["a", "b"])), Request::Report);
        assert_eq!(state.view, View::Group(vec!["a".to_owned()]), "the first one, as none was selected");
        assert_eq!(state.press(PressedKey::Char(' '), &content(&[])), Request::Report);
        assert_eq!(state.shown, Shown::Held);
        state.press(PressedKey::Down, &content(&[]));
        assert_eq!(state.offset, 1, "text is scrolled");
        assert_eq!((state.press(PressedKey::Escape, &content(&[])), &state.view), (Request::Report, &View::Groups));
        assert_eq!(state.press(PressedKey::Escape, &content(&["a"])), Request::Latest);
        assert_eq!(state.press(PressedKey::Enter, &content(&[])), Request::Report, "the one that was selected");
        state.press(PressedKey::Escape, &content(&[]));
        state.press(PressedKey::Enter, &content(&["b"]));
        assert_eq!(state.view, View::Group(vec!["b".to_owned()]), "the one that was selected is not listed");
    }

    #[test]
    fn keys_choose_axis_order_and_interval() {
        let (mut state, content) = (state(), content(&["a"]));
        let axis = state.axis;
        assert_eq!(state.press(PressedKey::Char('g'), &content), Request::Regroup);
        assert_ne!(state.axis, axis);
        state.press(PressedKey::Char('G'), &content);
        assert_eq!(state.axis, axis);
        let order = |state: &mut ScreenState, key| {
            state.press(PressedKey::Char(key), &content);
            state.order()
        };
        assert_eq!(['s', 's', 's', 'S'].map(|key| order(&mut state, key)), ["wait", "block", "run", "block"]);
        assert_eq!(state.options().selection.sort_by[0].by.name(), "block");
        let every = |state: &mut ScreenState, key| {
            state.press(PressedKey::Char(key), &content);
            state.every.as_millis()
        };
        assert_eq!(
            ['-', '-', '-', '+', '+', '+'].map(|key| every(&mut state, key)),
            [1000, 500, 500, 1000, 2000, 5000]
        );
        state.every = Duration::from_secs(3);
        assert_eq!(every(&mut state, '-'), 2000, "that of the command line is none of them");
    }

    #[test]
    fn a_filter_is_a_text_or_a_glob_and_can_be_given_up() {
        let (mut state, content) = (state(), content(&["a"]));
        state.base.selection.only = vec![GroupGlob::new("web*").unwrap()];
        assert_eq!(state.only().as_deref(), Some("only web*"));
        state.filter = "ake".to_owned();
        assert_eq!(state.only().as_deref(), Some("only web* or ake"));
        (state.base.selection.only, state.filter) = (Vec::new(), String::new());
        let mut filtered = |keys: &str| {
            let key = |char| match char {
                '\r' => PressedKey::Enter,
                '\x1b' => PressedKey::Escape,
                '\x7f' => PressedKey::Backspace,
                char => PressedKey::Char(char),
            };
            for char in keys.chars() {
                state.press(key(char), &content);
            }
            let only = state.options().selection.only;
            only.first().map(ToString::to_string)
        };
        assert_eq!(filtered("/ake[7\r").as_deref(), Some("*ake[[]7*"));
        assert_eq!(filtered("/q\x1b").as_deref(), Some("*ake[[]7*"), "as before");
        assert_eq!(filtered("/\x7f\x7f*\r").as_deref(), Some("ake*"));
        assert_eq!(filtered("/[*\r").as_deref(), Some("ake*[[]*"), "names have brackets");
        assert_eq!(filtered(&format!("/{}\r", "\x7f".repeat(9))), None);
    }
}
