//! The value of a metric, from the fields of a record.

use super::super::procfs::parsers::policy;
use super::cpu_time::{CpuTime, Printed};
use super::layout::{Field, Record};
use crate::model::{FieldForm, KernelField, Metric, Shape, Value};

/// Nanoseconds per tick of `USER_HZ`, which is 100 on all architectures that ctprof supports.
pub(super) const NS_PER_TICK: u64 = 10_000_000;

/// Where records have a metric.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) field: Field,
    /// The other fields that the form names.
    others: Vec<Field>,
    pub(super) form: FieldForm,
}

/// What the values of a thread have in common.
#[derive(Clone, Copy)]
pub(super) struct Common {
    /// User and system time, in nanoseconds.
    pub(super) cpu_time: Option<(u64, u64)>,
    pub(super) exit_state: u64,
    /// In bytes.
    pub(super) page_size: u64,
}

impl Source {
    /// `None` if the kernel lacks a field.
    pub(super) fn find(field: KernelField, find: impl Fn(&str) -> Option<Field>) -> Option<Self> {
        let mut fields = field.paths().map(find).collect::<Option<Vec<_>>>()?.into_iter();
        Some(Self { field: fields.next()?, others: fields.collect(), form: field.form })
    }

    /// `None` if the kernel had no pointer to a field.
    pub(super) fn value(&self, metric: &Metric, record: Record<'_>, common: Common) -> Option<Value<'static>> {
        let number = record.number(Some(self.field))?;
        let other = |field: &Field| record.number(Some(*field));
        Some(match self.form {
            FieldForm::Plain if metric.shape == Shape::Signed => Value::Signed(number.cast_signed()),
            FieldForm::Plain => Value::Unsigned(number),
            FieldForm::Less(constant) => Value::Signed(number.cast_signed() - i64::from(constant)),
            FieldForm::LessField(_) => Value::Unsigned(number.saturating_sub(other(self.others.first()?)?)),
            FieldForm::Pages(_) => {
                let now = self.others.iter().map(|field| Some(pages(other(field)?))).sum::<Option<u64>>()?;
                // An exited process has none.
                let most = number.max(now);
                return (most > 0).then(|| Value::Unsigned(most.saturating_mul(common.page_size)));
            }
            FieldForm::Policy => policy(number),
            FieldForm::State => Value::Letter(state(number, common.exit_state)),
            FieldForm::UserTime => Value::Unsigned(common.cpu_time?.0 / NS_PER_TICK),
            FieldForm::SystemTime => Value::Unsigned(common.cpu_time?.1 / NS_PER_TICK),
            FieldForm::Cpus | FieldForm::Representative => return None,
        })
    }
}

/// A number of pages. Some are counted per CPU, and their sum can be below 0 for a moment.
pub(super) fn pages(counter: u64) -> u64 {
    u64::try_from(counter.cast_signed()).unwrap_or(0)
}

/// The state letter that procfs prints (`__task_state_index` of include/linux/sched.h, `task_state_array` of
/// fs/proc/array.c).
fn state(state: u64, exit_state: u64) -> char {
    const REPORTED: u64 = 0x7f;
    const UNINTERRUPTIBLE: u64 = 0x2;
    const IDLE: u64 = 0x402;
    const RTLOCK_WAIT: u64 = 0x1000;
    const FROZEN: u64 = 0x8000;
    const LETTERS: [char; 9] = ['R', 'S', 'D', 'T', 't', 'X', 'Z', 'P', 'I'];
    let reported = match (state | exit_state) & REPORTED {
        _ if state & (RTLOCK_WAIT | FROZEN) != 0 => UNINTERRUPTIBLE,
        _ if state & IDLE == IDLE => REPORTED + 1,
        reported => reported,
    };
    LETTERS[usize::try_from(u64::BITS - reported.leading_zeros()).expect("at most 64")]
}

/// CPU times of a thread or a process.
#[derive(Debug)]
pub(super) struct CpuTimeFields {
    pub(super) user: Option<Field>,
    pub(super) system: Option<Field>,
    pub(super) run: Option<Field>,
    pub(super) printed_user: Option<Field>,
    pub(super) printed_system: Option<Field>,
}

impl CpuTimeFields {
    pub(super) fn read(&self, record: Record<'_>) -> Option<(CpuTime, Printed)> {
        let time = CpuTime {
            user: record.number(self.user)?,
            system: record.number(self.system)?,
            run: record.number(self.run)?,
        };
        let printed = record.number(self.printed_user).zip(record.number(self.printed_system)).unwrap_or_default();
        Some((time, Printed { user: printed.0, system: printed.1 }))
    }
}
