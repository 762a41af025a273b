//! `ctprof top`: the first screen, live, or from the file of a series. Keys and windows change a state ([`state`]), which is made
//! into lines ([`fill`], [`screen`]) without a terminal; only [`session`] has one.

mod content;
mod fill;
mod keys;
mod past;
mod screen;
mod session;
mod source;
mod state;
mod trend_history;

pub(crate) use self::session::{Session, SessionOptions};
pub(crate) use self::source::WindowSource;
