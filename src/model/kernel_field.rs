//! Where the kernel keeps a value, for the engine that reads its memory through BPF.

/// A field that is reached from a thread's `struct task_struct`, described by the kernel's BTF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KernelField {
    /// Members from `task_struct` on, with `.`, `->` and `[n]`. After ` | `, names of other kernel versions, newest
    /// first. The first that the kernel has counts.
    pub(crate) path: &'static str,
    pub(crate) form: FieldForm,
}

/// How a value comes from a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldForm {
    /// It is the field.
    Plain,
    /// The field less a constant.
    Less(i32),
    /// The field less another one, never below 0.
    LessField(&'static str),
    /// In pages: a largest value so far, which the kernel updates late. The sum of the other fields is the current
    /// one, where a negative field counts as 0 (`get_mm_hiwater_rss`, `get_mm_hiwater_vm` of include/linux/mm.h).
    Pages(&'static [&'static str]),
    /// The current number of pages of a kind. Since Linux 6.2, every CPU has a part of it, and procfs adds them up.
    PageCounter,
    /// The number of a scheduling policy.
    Policy,
    /// Bits of `include/linux/sched.h` (`__task_state_index`).
    State,
    /// A mask of CPUs.
    Cpus,
    /// User time in nanoseconds as sampled at ticks, adjusted to the run time (`cputime_adjust` of
    /// kernel/sched/cputime.c).
    UserTime,
    /// System time, derived as [`Self::UserTime`] is.
    SystemTime,
    /// A field whose equal values mean equal printed values: procfs is read for one thread of each value.
    Representative,
}

/// Resident pages of a process: of files, anonymous, and of shared memory (`get_mm_rss` of include/linux/mm.h).
pub(crate) const RESIDENT: &[&str] = &[
    "mm->rss_stat[0].count | mm->rss_stat.count[0].counter",
    "mm->rss_stat[1].count | mm->rss_stat.count[1].counter",
    "mm->rss_stat[3].count | mm->rss_stat.count[3].counter",
];

impl KernelField {
    /// All paths that the value is made from.
    pub(crate) fn paths(self) -> impl Iterator<Item = &'static str> {
        let others: &'static [&'static str] = match self.form {
            FieldForm::Pages(others) => others,
            _ => &[],
        };
        let other = if let FieldForm::LessField(path) = self.form { Some(path) } else { None };
        [self.path].into_iter().chain(other).chain(others.iter().copied())
    }

    /// The field and what is done with it, as text.
    pub(crate) fn place(self) -> String {
        let path = self.path.replace(" | ", ", else ");
        match self.form {
            FieldForm::Plain | FieldForm::Policy | FieldForm::State | FieldForm::Cpus => path,
            FieldForm::Less(constant) => format!("{path} − {constant}"),
            FieldForm::LessField(other) => format!("({path}) − ({})", other.replace(" | ", ", else ")),
            FieldForm::Pages(_) => format!("{path}, or the current value"),
            FieldForm::PageCounter => format!("{path}; since Linux 6.2, procfs"),
            FieldForm::UserTime | FieldForm::SystemTime => format!("{path}, adjusted to the run time"),
            FieldForm::Representative => format!("procfs for one thread of each {path}"),
        }
    }
}

/// The field of a row: none, or one with a form, plain if none is given.
pub(super) const fn field(paths: &[&'static str], forms: &[FieldForm]) -> Option<KernelField> {
    match (paths, forms) {
        ([], _) => None,
        ([path, ..], []) => Some(KernelField { path, form: FieldForm::Plain }),
        ([path, ..], [form, ..]) => Some(KernelField { path, form: *form }),
    }
}
