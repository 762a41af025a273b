//! What a user selects by name: metrics, and keys to sort by. Checked before any file is opened.

use crate::model::{DERIVED, Derived, METRICS, Metric, Reduction, Section};

/// Which way a key sorts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Smallest first.
    Asc,
    /// Largest first.
    #[default]
    Desc,
    /// Furthest from 0 first.
    Abs,
}

/// What a key sorts by.
#[derive(Clone, Copy, Debug)]
pub enum SortBy {
    /// The group's number of threads.
    ThreadCount,
    /// A metric's total, or its delta.
    Metric(&'static Metric),
    /// A derived metric's value, or its delta.
    Derived(&'static Derived),
}

/// One key of an order of groups.
#[derive(Clone, Copy, Debug)]
pub struct SortKey {
    /// What it looks at.
    pub by: SortBy,
    /// Which way.
    pub order: Order,
}

/// A selection that can't be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectError {
    /// There is no metric of that name.
    #[error("no metric is called `{name}`{}", nearest.map_or_else(String::new, |near| format!("; did you mean `{near}`?")))]
    NoSuchMetric {
        /// The name given.
        name: String,
        /// The nearest name there is.
        nearest: Option<&'static str>,
    },
    /// There is no section of that name.
    #[error("no section is called `{name}`{}", nearest.map_or_else(String::new, |near| format!("; did you mean `{near}`?")))]
    NoSuchSection {
        /// The name given.
        name: String,
        /// The nearest name there is.
        nearest: Option<&'static str>,
    },
    /// The metric has no order.
    #[error("`{0}` is a category and can't be sorted by")]
    Unsortable(&'static str),
    /// The direction is none of asc, desc, abs.
    #[error("`{0}` is no direction: asc, desc or abs")]
    NoSuchOrder(String),
}

/// A column of a group that can be selected and sorted by like a metric.
pub(super) const THREAD_COUNT: &str = "thread_count";

/// The metric of that name.
///
/// # Errors
/// [`SelectError::NoSuchMetric`], with the nearest name.
pub fn metric(name: &str) -> Result<&'static Metric, SelectError> {
    let found = METRICS.iter().find(|metric| metric.name == name);
    found.ok_or_else(|| SelectError::NoSuchMetric { name: name.to_owned(), nearest: nearest_metric(name) })
}

/// The derived metric of that name.
fn derived(name: &str) -> Option<&'static Derived> {
    DERIVED.iter().find(|derived| derived.name == name)
}

/// Every name that can be selected.
fn selectable() -> impl Iterator<Item = &'static str> {
    let metrics = METRICS.iter().map(|metric| metric.name);
    metrics.chain(DERIVED.iter().map(|derived| derived.name)).chain([THREAD_COUNT])
}

fn nearest_metric(name: &str) -> Option<&'static str> {
    nearest(name, selectable())
}

/// The one of `names` that `name` was probably meant to be.
#[must_use]
pub fn nearest(name: &str, names: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    let scored = names.map(|known| (strsim::jaro_winkler(name, known), known));
    let best = scored.max_by(|(a, _), (b, _)| a.total_cmp(b));
    best.filter(|(score, _)| *score > 0.7).map(|(_, known)| known)
}

/// Sections by name, separated by commas.
///
/// # Errors
/// [`SelectError::NoSuchSection`] for the first unknown name.
pub fn parse_sections(names: &str) -> Result<Vec<Section>, SelectError> {
    let all = || Section::ALL.iter().copied();
    let section = |name: &str| {
        let found = all().find(|section| section.name() == name);
        let nearest = || nearest(name, all().map(Section::name));
        found.ok_or_else(|| SelectError::NoSuchSection { name: name.to_owned(), nearest: nearest() })
    };
    names.split(',').map(|name| section(name.trim())).collect()
}

/// Names of metrics, derived ones and `thread_count`, separated by commas.
///
/// # Errors
/// [`SelectError::NoSuchMetric`] for the first unknown name.
pub fn parse_metrics(names: &str) -> Result<Vec<&'static str>, SelectError> {
    let known = |name: &str| {
        let found = selectable().find(|known| *known == name);
        found.ok_or_else(|| SelectError::NoSuchMetric { name: name.to_owned(), nearest: nearest_metric(name) })
    };
    names.split(',').map(|name| known(name.trim())).collect()
}

/// Keys `metric[:asc|desc|abs]`, separated by commas.
///
/// # Errors
/// [`SelectError`] for the first key that does not work.
pub fn parse_sort(keys: &str) -> Result<Vec<SortKey>, SelectError> {
    keys.split(',').map(|key| sort_key(key.trim())).collect()
}

fn sort_key(key: &str) -> Result<SortKey, SelectError> {
    let (name, order) = match key.split_once(':') {
        None => (key, Order::default()),
        Some((name, "asc")) => (name, Order::Asc),
        Some((name, "desc")) => (name, Order::Desc),
        Some((name, "abs")) => (name, Order::Abs),
        Some((_, other)) => return Err(SelectError::NoSuchOrder(other.to_owned())),
    };
    if name == THREAD_COUNT {
        return Ok(SortKey { by: SortBy::ThreadCount, order });
    }
    if let Some(derived) = derived(name) {
        return Ok(SortKey { by: SortBy::Derived(derived), order });
    }
    match metric(name)? {
        category if category.reduction == Reduction::Mode => Err(SelectError::Unsortable(category.name)),
        number => Ok(SortKey { by: SortBy::Metric(number), order }),
    }
}

impl Order {
    /// How two numbers stand in this order; what has none comes last.
    pub(super) fn compare(self, a: Option<f64>, b: Option<f64>) -> std::cmp::Ordering {
        let key = |number: f64| match self {
            Self::Asc => number,
            Self::Desc => -number,
            Self::Abs => -number.abs(),
        };
        let (missing, a, b) = (a.is_none().cmp(&b.is_none()), a.map_or(0.0, key), b.map_or(0.0, key));
        missing.then(a.total_cmp(&b))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_gets_the_nearest_one() {
        let error = metric("run_tme_ns").map(|m| m.name).unwrap_err().to_string();
        assert_eq!(error, "no metric is called `run_tme_ns`; did you mean `run_time_ns`?");
        assert_eq!(metric("zzz").map(|m| m.name).unwrap_err().to_string(), "no metric is called `zzz`");
    }

    #[test]
    fn sections_are_known_by_name() {
        assert_eq!(parse_sections("host, io-stat"), Ok(vec![Section::Host, Section::IoStat]));
        let error = parse_sections("iostat").unwrap_err().to_string();
        assert_eq!(error, "no section is called `iostat`; did you mean `io-stat`?");
    }

    #[test]
    fn sort_keys_have_a_name_and_a_way() {
        let keys = parse_sort("wait_max, thread_count:asc").unwrap();
        assert!(matches!(keys[0], SortKey { by: SortBy::Metric(m), order: Order::Desc } if m.name == "wait_max"));
        assert!(matches!(keys[1], SortKey { by: SortBy::ThreadCount, order: Order::Asc }));
        assert_eq!(parse_sort("policy").unwrap_err(), SelectError::Unsortable("policy"));
        assert_eq!(parse_sort("wait_max:up").unwrap_err(), SelectError::NoSuchOrder("up".into()));
    }

    #[test]
    fn what_has_no_number_comes_last_either_way() {
        for order in [Order::Asc, Order::Desc, Order::Abs] {
            assert!(order.compare(Some(0.0), None).is_lt());
        }
        assert!(Order::Abs.compare(Some(-9.0), Some(3.0)).is_lt());
        assert!(Order::Desc.compare(Some(-9.0), Some(3.0)).is_gt());
    }
}
