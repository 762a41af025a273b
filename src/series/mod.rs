//! Windows in steps: a capture, and then the changes from one pass over the threads to the next. From both, the captures at the
//! ends of any part can be restored, and the window between them is made like any window.

mod change;
mod changes;
mod error;
mod moment;
mod part;
mod range;
mod slept_on;
mod step;
mod table;
#[cfg(test)]
mod tests;

pub use self::changes::Changes;
pub use self::error::SeriesError;
pub use self::moment::{Applied, Moment};
pub use self::part::Part;
pub use self::range::{PartEnd, SeriesRange};
pub use self::slept_on::Sleepers;
pub use self::step::{Step, StepExits};
