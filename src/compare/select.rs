//! Selection by name: metrics, sections, sort keys. Names are checked before any file is opened.

use std::cmp::Ordering;

use super::quantity::Quantity;
use super::similar::similar;
use crate::model::Section;

/// Direction of a sort key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Smallest first.
    Asc,
    /// Largest first.
    #[default]
    Desc,
    /// Largest absolute value first.
    Abs,
}

/// A sort key of groups.
#[derive(Clone, Copy, Debug)]
pub struct SortKey {
    /// The quantity to compare.
    pub by: Quantity,
    /// The direction.
    pub order: Order,
}

/// An invalid selection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectError {
    /// The name is unknown.
    #[error("unknown {kind} `{name}`{}", nearest.map_or_else(String::new, |near| format!("; did you mean `{near}`?")))]
    Unknown {
        /// Kind of selection: metric, section, column.
        kind: &'static str,
        /// The name given.
        name: String,
        /// The most similar known name.
        nearest: Option<&'static str>,
    },
    /// The metric has no order.
    #[error("cannot sort by `{0}`: it is a category")]
    Unsortable(&'static str),
    /// The direction is not asc, desc or abs.
    #[error("unknown sort order `{0}` (asc, desc, abs)")]
    UnknownOrder(String),
}

impl SelectError {
    /// The error for an unknown `name` of a kind with these known `names`.
    pub fn unknown(kind: &'static str, name: &str, names: impl Iterator<Item = &'static str>) -> Self {
        let nearest = similar(name, names, 1).first().copied();
        Self::Unknown { kind, name: name.to_owned(), nearest }
    }
}

/// The metric, derived metric or `thread_count` of that name.
///
/// # Errors
/// [`SelectError::Unknown`], with the most similar name.
pub fn parse_metric(name: &str) -> Result<Quantity, SelectError> {
    Quantity::named(name).ok_or_else(|| SelectError::unknown("metric", name, Quantity::all().map(Quantity::name)))
}

/// The section of that name.
///
/// # Errors
/// [`SelectError::Unknown`], with the most similar name.
pub fn parse_section(name: &str) -> Result<Section, SelectError> {
    let found = Section::ALL.iter().copied().find(|section| section.name() == name);
    found.ok_or_else(|| SelectError::unknown("section", name, Section::ALL.iter().copied().map(Section::name)))
}

/// A key `metric[:asc|desc|abs]`.
///
/// # Errors
/// [`SelectError`] for an unknown metric or order, or a metric that has no order.
pub fn parse_sort_key(key: &str) -> Result<SortKey, SelectError> {
    let (name, order) = match key.split_once(':') {
        None => (key, Order::default()),
        Some((name, "asc")) => (name, Order::Asc),
        Some((name, "desc")) => (name, Order::Desc),
        Some((name, "abs")) => (name, Order::Abs),
        Some((_, other)) => return Err(SelectError::UnknownOrder(other.to_owned())),
    };
    let by = parse_metric(name)?;
    if by.has_order() { Ok(SortKey { by, order }) } else { Err(SelectError::Unsortable(by.name())) }
}

impl Order {
    /// Compares two numbers in this order; a missing one comes last.
    pub(super) fn compare(self, a: Option<f64>, b: Option<f64>) -> Ordering {
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
        let error = |name| parse_metric(name).map(Quantity::name).unwrap_err().to_string();
        assert_eq!(error("run_tme_ns"), "unknown metric `run_tme_ns`; did you mean `run_time_ns`?");
        assert_eq!(error("zzz"), "unknown metric `zzz`");
        let error = parse_section("iostat").unwrap_err().to_string();
        assert_eq!(error, "unknown section `iostat`; did you mean `io-stat`?");
    }

    #[test]
    fn sort_keys_have_a_name_and_an_order() {
        let key = |key: &str| parse_sort_key(key).map(|key| (key.by.name(), key.order));
        assert_eq!(key("wait_max"), Ok(("wait_max", Order::Desc)));
        assert_eq!(key("thread_count:asc"), Ok(("thread_count", Order::Asc)));
        assert_eq!(key("policy"), Err(SelectError::Unsortable("policy")));
        assert_eq!(key("wait_max:up"), Err(SelectError::UnknownOrder("up".into())));
    }

    #[test]
    fn a_missing_number_comes_last_either_way() {
        for order in [Order::Asc, Order::Desc, Order::Abs] {
            assert!(order.compare(Some(0.0), None).is_lt());
        }
        assert!(Order::Abs.compare(Some(-9.0), Some(3.0)).is_lt());
        assert!(Order::Desc.compare(Some(-9.0), Some(3.0)).is_gt());
    }
}
