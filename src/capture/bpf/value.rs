//! The value of a metric, from the fields of a record.

use super::super::procfs::parsers::policy;
use super::change_filter;
use super::cpu_time::{CpuTime, Printed};
use super::layout::{Field, ThreadRecord};
use crate::model::{FieldForm, KernelField, Metric, NS_PER_TICK, Shape, Value};

/// Where records have a metric.
#[derive(Debug)]
pub(super) struct MetricField {
    pub(super) field: Field,
    /// Further fields that the form names.
    others: Vec<Field>,
    pub(super) form: FieldForm,
}

/// Inputs on which several values of a thread depend.
#[derive(Clone, Copy)]
pub(super) struct ThreadInputs {
    /// User and system time, in nanoseconds.
    pub(super) cpu_time: Option<(u64, u64)>,
    pub(super) exit_state: Option<u64>,
    /// Size of a page in bytes.
    pub(super) page_size: u64,
}

impl MetricField {
    /// `None` if the kernel lacks a field.
    pub(super) fn find(field: KernelField, find: impl Fn(&str) -> Option<Field>) -> Option<Self> {
        let mut fields = field.paths().map(find).collect::<Option<Vec<_>>>()?.into_iter();
        Some(Self { field: fields.next()?, others: fields.collect(), form: field.form })
    }

    /// `None` if the kernel had no pointer to a field.
    pub(super) fn value(
        &self,
        metric: &Metric,
        record: ThreadRecord<'_>,
        common: ThreadInputs,
    ) -> Option<Value<'static>> {
        let number = record.number(Some(self.field))?;
        let other = |field: &Field| record.number(Some(*field));
        Some(match self.form {
            FieldForm::Plain if metric.shape == Shape::Signed => Value::Signed(number.cast_signed()),
            FieldForm::Plain => Value::Unsigned(number),
            FieldForm::Less(constant) => Value::Signed(number.cast_signed().saturating_sub(constant.into())),
            FieldForm::LessField(_) => Value::Unsigned(number.saturating_sub(other(self.others.first()?)?)),
            FieldForm::Pages(_) => {
                // An exited process has none.
                let most = number.max(pages(self.others.iter().map(other))?);
                return (most > 0).then(|| Value::Unsigned(most.saturating_mul(common.page_size)));
            }
            FieldForm::PageCounter => {
                Value::Unsigned(pages([Some(number)].into_iter())?.saturating_mul(common.page_size))
            }
            FieldForm::Policy => policy(number),
            FieldForm::State => Value::Letter(state(number, common.exit_state?)),
            FieldForm::UserTime => Value::Unsigned(common.cpu_time?.0 / NS_PER_TICK),
            FieldForm::SystemTime => Value::Unsigned(common.cpu_time?.1 / NS_PER_TICK),
            FieldForm::Cpus | FieldForm::Representative => return None,
        })
    }
}

/// The sum of numbers of pages. A counter per CPU can be below 0 for a moment.
pub(super) fn pages(mut counters: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    let number = |counter: u64| u64::try_from(counter.cast_signed()).unwrap_or(0);
    counters.try_fold(0, |sum: u64, counter| Some(sum.saturating_add(number(counter?))))
}

/// The state letter that procfs prints (`__task_state_index` of include/linux/sched.h, `task_state_array` of
/// fs/proc/array.c).
fn state(state: u64, exit_state: u64) -> char {
    const REPORTED: u64 = 0x7f;
    const UNINTERRUPTIBLE: u64 = 0x2;
    const IDLE: u64 = 0x402;
    const RTLOCK_WAIT: u64 = 0x1000;
    const FROZEN: u64 = change_filter::FROZEN as u64;
    const LETTERS: [char; 9] = ['R', 'S', 'D', 'T', 't', 'X', 'Z', 'P', 'I'];
    let reported = match (state | exit_state) & REPORTED {
        _ if state & (RTLOCK_WAIT | FROZEN) != 0 => UNINTERRUPTIBLE,
        _ if state & IDLE == IDLE => REPORTED + 1,
        reported => reported,
    };
    LETTERS[usize::try_from(u64::BITS - reported.leading_zeros()).expect("at most 64")]
}

/// The fields of [`CPU_TIME`](super::columns::CPU_TIME), or of a process.
pub(super) type CpuTimeFields = [Option<Field>; 5];

/// The CPU time of a thread or a process, and what procfs printed last.
pub(super) fn cpu_time(record: ThreadRecord<'_>, fields: CpuTimeFields) -> Option<(CpuTime, Printed)> {
    let [user, system, run, printed_user, printed_system] = fields.map(|field| record.number(field));
    let (printed_user, printed_system) = printed_user.zip(printed_system).unwrap_or_default();
    let printed = Printed { user: printed_user, system: printed_system };
    Some((CpuTime { user: user?, system: system?, run: run? }, printed))
}

#[cfg(test)]
mod tests {
    use super::super::tests::record_builder::RecordBuilder;
    use super::*;
    use crate::model::METRICS;

    /// The value of a metric.
    fn value(name: &str, record: &RecordBuilder, common: ThreadInputs) -> Option<Value<'static>> {
        let metric = METRICS.iter().find(|metric| metric.name == name).unwrap();
        let find = |path: &str| record.layout.find(path);
        MetricField::find(metric.sources.bpf.unwrap(), find).unwrap().value(metric, record.record(), common)
    }

    fn common() -> ThreadInputs {
        ThreadInputs { cpu_time: None, exit_state: Some(0), page_size: 4096 }
    }

    /// The value of a metric, of a record with these fields.
    fn plain<const N: usize>(name: &str, fields: [(&str, u64); N]) -> Option<Value<'static>> {
        value(name, &RecordBuilder::new().with(fields), common())
    }

    fn signed(number: i64) -> u64 {
        number.cast_unsigned()
    }

    #[test]
    fn states_have_the_letters_of_procfs() {
        // include/linux/sched.h of Linux 6.18: state, exit state, letter.
        let cases = [
            (0x0, 0, 'R'),
            (0x1, 0, 'S'),
            (0x2, 0, 'D'),
            (0x4, 0, 'T'),
            (0x8, 0, 't'),
            (0x40, 0, 'P'),
            (0x402, 0, 'I'),
            // TASK_KILLABLE, TASK_STOPPED, TASK_TRACED, TASK_FREEZABLE.
            (0x102, 0, 'D'),
            (0x104, 0, 'T'),
            (0x108, 0, 't'),
            (0x2001, 0, 'S'),
            // Idle with further bits, and TASK_NOLOAD alone, which is no sleep.
            (0x2402, 0, 'I'),
            (0x403, 0, 'I'),
            (0x400, 0, 'R'),
            // TASK_RTLOCK_WAIT and TASK_FROZEN are shown as uninterruptible.
            (0x1000, 0, 'D'),
            (0x8000, 0, 'D'),
            (0x8402, 0, 'D'),
            (0x9001, 0, 'D'),
            // EXIT_DEAD, EXIT_ZOMBIE and both, of a thread that is TASK_DEAD.
            (0x80, 0x10, 'X'),
            (0x80, 0x20, 'Z'),
            (0x80, 0x30, 'Z'),
            (0x80, 0, 'R'),
            // TASK_WAKING and TASK_NEW.
            (0x200, 0, 'R'),
            (0x800, 0, 'R'),
        ];
        for (number, exit_state, letter) in cases {
            assert_eq!(state(number, exit_state), letter, "{number:#x}, {exit_state:#x}");
        }
        assert_eq!(state(u64::MAX, u64::MAX), 'D');
    }

    #[test]
    fn a_state_without_the_exit_state_is_absent() {
        let record = RecordBuilder::new().with([("__state | state", 1)]);
        assert_eq!(value("state", &record, common()), Some(Value::Letter('S')));
        assert_eq!(value("state", &record, ThreadInputs { exit_state: None, ..common() }), None);
        assert_eq!(
            value("state", &record, ThreadInputs { exit_state: Some(0x20), ..common() }),
            Some(Value::Letter('Z'))
        );
    }

    #[test]
    fn policies_have_names() {
        let policy = |number| plain("policy", [("policy", number)]).unwrap();
        assert_eq!(policy(0), Value::Name("SCHED_OTHER"));
        assert_eq!(policy(6), Value::Name("SCHED_DEADLINE"));
        assert_eq!(policy(4), Value::Text("SCHED_UNKNOWN(4)".into()));
    }

    #[test]
    fn priorities_count_from_the_numbers_of_the_kernel() {
        for (static_prio, nice) in [(100, -20), (120, 0), (139, 19)] {
            assert_eq!(plain("nice", [("static_prio", static_prio)]), Some(Value::Signed(nice)));
        }
        // Fair, real time with priority 1 and 99, deadline.
        for (prio, priority) in [(120, 20), (98, -2), (0, -100), (signed(-1), -101)] {
            assert_eq!(plain("priority", [("prio", prio)]), Some(Value::Signed(priority)));
        }
        assert_eq!(plain("nice", [("static_prio", signed(i64::MIN))]), Some(Value::Signed(i64::MIN)));
    }

    #[test]
    fn voluntary_sleep_is_never_below_zero() {
        let sleep = |sleep, block| {
            let fields = [
                ("stats.sum_sleep_runtime | se.statistics.sum_sleep_runtime", sleep),
                ("stats.sum_block_runtime | se.statistics.sum_block_runtime", block),
            ];
            plain("voluntary_sleep_ns", fields)
        };
        assert_eq!(sleep(50_751_655, 4_867_026), Some(Value::Unsigned(45_884_629)));
        assert_eq!(sleep(1, 2), Some(Value::Unsigned(0)));
    }

    #[test]
    fn memory_peaks_include_the_present_and_ignore_negative_counters() {
        let peak = |hiwater, [files, anonymous, shared]: [i64; 3]| {
            let counts = crate::model::RESIDENT;
            let fields = [
                ("mm->hiwater_rss", hiwater),
                (counts[0], signed(files)),
                (counts[1], signed(anonymous)),
                (counts[2], signed(shared)),
            ];
            plain("hiwater_rss_bytes", fields)
        };
        assert_eq!(peak(100, [10, 20, 30]), Some(Value::Unsigned(100 * 4096)));
        assert_eq!(peak(50, [10, 20, 30]), Some(Value::Unsigned(60 * 4096)), "the kernel updates the peak late");
        assert_eq!(peak(50, [-7, 60, -1]), Some(Value::Unsigned(60 * 4096)), "a sum of counters per CPU");
        assert_eq!(peak(0, [0, -1, 0]), None, "of an exited process");
        assert_eq!(peak(0, [i64::MAX; 3]), Some(Value::Unsigned(u64::MAX)));
        let total = plain("hiwater_vm_bytes", [("mm->hiwater_vm", 5), ("mm->total_vm", 7)]);
        assert_eq!(total, Some(Value::Unsigned(7 * 4096)));
        let exited = RecordBuilder::new().with([("mm->hiwater_vm", 5)]).null("mm");
        assert_eq!(value("hiwater_vm_bytes", &exited, common()), None);
    }

    #[test]
    fn cpu_times_are_whole_ticks() {
        let record = RecordBuilder::new();
        let common = ThreadInputs { cpu_time: Some((29_999_999, 30_000_000)), ..common() };
        assert_eq!(value("utime_clock_ticks", &record, common), Some(Value::Unsigned(2)));
        assert_eq!(value("stime_clock_ticks", &record, common), Some(Value::Unsigned(3)));
        assert_eq!(value("utime_clock_ticks", &record, self::common()), None);
    }

    #[test]
    fn a_metric_of_two_fields_needs_both() {
        let metric = METRICS.iter().find(|metric| metric.name == "voluntary_sleep_ns").unwrap();
        let record = RecordBuilder::new();
        let find = |path: &str| record.layout.find(path).filter(|_| !path.contains("block"));
        assert!(MetricField::find(metric.sources.bpf.unwrap(), find).is_none());
    }
}
