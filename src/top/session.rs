//! The loop: windows, keys and signals, one after the other.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

use nix::errno::Errno;

use super::content::Content;
use super::fill::content;
use super::keys::take_keys;
use super::past::TimedWindow;
use super::screen;
use super::source::{NoWindows, WindowSource};
use super::state::{Request, ScreenState, Shown, ShownColumns};
use super::trend_history::TrendHistory;
use crate::compare::{CompareOptions, Report, show};
use crate::process::{ScreenEvent, Signals, Stopped, TerminalScreen, last_message};
use crate::report::{Terminal, UserNames};
use crate::store::OutputTarget;

/// Options of a session, from the command line.
pub(crate) struct SessionOptions {
    pub(crate) compare: CompareOptions,
    pub(crate) every: Duration,
    pub(crate) has_color: bool,
    /// Files of at most so many bytes of JSON are read and written.
    pub(crate) limit: u64,
    /// The names of the users of groups.
    pub(crate) users: fn(&Report) -> UserNames,
    /// The file for a window that is written.
    pub(crate) file_name: Box<dyn Fn() -> PathBuf>,
}

/// A screen, and what it shows.
pub(crate) struct Session<'r> {
    options: SessionOptions,
    source: WindowSource<'r>,
    screen: TerminalScreen,
    signals: Signals,
    state: ScreenState,
    trends: TrendHistory,
    /// `None` before the first one.
    window: Option<(TimedWindow, Report)>,
    content: Content,
    /// The last message of ctprof that was shown.
    last_message: Option<String>,
}

impl<'r> Session<'r> {
    pub(crate) fn new(
        options: SessionOptions,
        source: WindowSource<'r>,
        screen: TerminalScreen,
        signals: Signals,
    ) -> Self {
        let state = ScreenState::new(options.compare.clone(), options.every);
        let content =
            Content { title: vec!["the first interval takes half a second".to_owned()], ..Content::default() };
        Self {
            options,
            source,
            screen,
            signals,
            state,
            trends: TrendHistory::default(),
            window: None,
            content,
            last_message: None,
        }
    }

    /// Shows windows until a key or a signal ends that, and returns the number of the signal.
    pub(crate) fn run(mut self) -> anyhow::Result<Option<i32>> {
        let mut typed = Vec::new();
        self.draw()?;
        loop {
            let is_due = self.source.is_live() || self.state.shown == Shown::Latest;
            let due = is_due.then(|| self.source.due(self.state.every));
            self.signals.begin_recording();
            match self.signals.screen_event(self.screen.input(), due)? {
                ScreenEvent::Ended(signal) => return Ok(Some(signal)),
                ScreenEvent::Elapsed => self.advance()?,
                ScreenEvent::Changed => {
                    self.screen.retake()?;
                    self.fill();
                }
                ScreenEvent::Stop => self.stop(Stopped::Process)?,
                ScreenEvent::Input => {
                    let mut bytes = [0; 1024];
                    match nix::unistd::read(self.screen.input(), &mut bytes) {
                        Ok(length @ 1..) => typed.extend(&bytes[..length]),
                        Err(Errno::EAGAIN | Errno::EINTR) => {}
                        // The terminal is gone.
                        Ok(0) | Err(_) => return Ok(Some(nix::libc::SIGHUP)),
                    }
                    for key in take_keys(&mut typed) {
                        if self.press(key)?.is_break() {
                            return Ok(None);
                        }
                    }
                }
            }
            self.draw()?;
        }
    }

    fn press(&mut self, key: super::keys::PressedKey) -> anyhow::Result<ControlFlow<()>> {
        let every = self.state.every;
        match self.state.press(key, &self.content) {
            Request::Quit => return Ok(ControlFlow::Break(())),
            Request::Draw => {}
            Request::Report => self.report(),
            Request::Regroup => self.regroup()?,
            Request::Earlier => self.go(-1)?,
            Request::Later => self.go(1)?,
            Request::Latest => self.state.shown = Shown::Latest,
            Request::Write => self.write(),
            Request::Stop => self.stop(Stopped::Group)?,
        }
        if self.state.every != every {
            self.source.set_every(self.state.every);
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Shows the window that is due.
    fn advance(&mut self) -> anyhow::Result<()> {
        let shown = self.window.as_ref().map(|(window, _)| window);
        let Some(window) = self.source.next(shown, &self.signals)? else {
            self.state.shown = Shown::Held;
            self.state.message = Some("this is the last window".to_owned());
            return Ok(());
        };
        let report = show(&window.window, &self.state.options());
        self.trends.add(&report, window.times[1]);
        self.state.is_first = self.window.is_none() && self.source.is_live();
        if self.state.shown == Shown::Latest || self.window.is_none() {
            self.window = Some((window, report));
            self.fill();
        }
        Ok(())
    }

    /// Shows the window before or after the one on the screen, and stays there.
    fn go(&mut self, by: i32) -> anyhow::Result<()> {
        let Some((shown, _)) = &self.window else { return Ok(()) };
        let (past, limit) = (&self.source.past, self.options.limit);
        let found = if by < 0 { past.before(shown, limit) } else { past.after(shown, limit) };
        match found? {
            Some(window) => {
                self.state.shown = Shown::Held;
                self.state.message = None;
                let report = show(&window.window, &self.state.options());
                self.trends.add(&report, window.times[1]);
                self.window = Some((window, report));
                self.fill();
            }
            None if by < 0 => self.state.message = Some("this is the first window".to_owned()),
            None if self.source.is_live() => self.state.shown = Shown::Latest,
            None => self.state.message = Some("this is the last window".to_owned()),
        }
        Ok(())
    }

    /// Reports on the window again.
    fn report(&mut self) {
        if let Some((TimedWindow { window, .. }, report)) = &mut self.window {
            *report = show(window, &self.state.options());
        }
        self.fill();
    }

    /// Reports on the window in other groups, whose trends are read again.
    fn regroup(&mut self) -> Result<(), NoWindows> {
        self.trends.clear();
        let options = self.state.options();
        let mut add = |window: TimedWindow| {
            self.trends.add(&show(&window.window, &options), window.times[1]);
            ControlFlow::Continue(())
        };
        if let Some((shown, _)) = &self.window {
            let end_ns = shown.times[1];
            let minute = [TrendHistory::needed_from(end_ns), end_ns];
            self.source.past.each(shown, minute, self.options.limit, &mut add)?;
        }
        self.report();
        Ok(())
    }

    fn terminal(&self) -> (Terminal, usize) {
        let size = terminal_size::terminal_size_of(std::io::stdout());
        let (width, height) = size.map_or((80, 24), |(width, height)| (width.0, height.0));
        (Terminal { width: Some(width), has_color: self.options.has_color }, height.into())
    }

    /// Makes the content of the screen from the window.
    fn fill(&mut self) {
        let terminal = self.terminal().0;
        let Some((TimedWindow { window, times: [_, end_ns] }, report)) = &mut self.window else { return };
        // A bar takes at least two seconds.
        let bars = usize::from(terminal.width.unwrap_or(0)).saturating_sub(60) / 5;
        let has_trends = self.state.columns == ShownColumns::Main && bars >= 4;
        report.trends = if has_trends { self.trends.trends(report, *end_ns, bars.min(20)) } else { Vec::new() };
        let users = (self.options.users)(report);
        // Color of content would be escaped: what draws it adds color.
        let body = Terminal { width: terminal.width.map(|width| width.saturating_sub(1)), has_color: false };
        self.content = content(&self.state, (window, report), users, body);
    }

    fn draw(&mut self) -> anyhow::Result<()> {
        let (terminal, height) = self.terminal();
        let message = last_message();
        if self.last_message != message {
            // Until the next key.
            self.state.message.clone_from(&message);
            self.last_message = message;
        }
        let lines = screen::lines(&mut self.state, &mut self.content, height, terminal);
        // Terminals that know it show all of it at once.
        let bytes = format!("\x1b[?2026h\x1b[H\x1b[2K{}\x1b[?2026l", lines.join("\r\n\x1b[2K"));
        Ok(self.screen.draw(bytes.as_bytes())?)
    }

    fn write(&mut self) {
        let Some((TimedWindow { window, .. }, _)) = &self.window else { return };
        let target = OutputTarget::create_new(&(self.options.file_name)());
        let written = target.and_then(|target| target.write(window, self.options.limit));
        self.state.message = Some(match written {
            Ok(written) => format!("written: {}", written.path.display()),
            Err(error) => format!("{error:#}"),
        });
    }

    fn stop(&mut self, whom: Stopped) -> anyhow::Result<()> {
        self.screen.lend();
        self.signals.stop(whom);
        Ok(self.screen.retake()?)
    }
}
