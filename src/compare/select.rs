//! Selection by name: metrics, sections, sort keys. Names are checked before any file is opened.

use std::cmp::Ordering;
use std::fmt;

use super::Quantity;
use crate::model::Section;
use crate::model::sorted::Arrange;

/// Direction of a sort key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Ascending: the smallest first.
    Asc,
    /// Descending: the largest first.
    #[default]
    Desc,
    /// Largest absolute value first.
    Abs,
}

/// A sort key of groups.
#[derive(Clone, Copy, Debug)]
pub struct SortKey {
    /// The value to compare.
    pub by: Quantity,
    /// Direction of the order.
    pub order: Order,
}

impl fmt::Display for SortKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = match self.order {
            Order::Asc => ":asc",
            Order::Desc => "",
            Order::Abs => ":abs",
        };
        write!(f, "{}{order}", self.by.name())
    }
}

/// Why a text selects nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectError(pub(crate) String);

/// The message about an unknown `name` of a kind that has the `valid_names`.
pub(crate) fn unknown<'n>(kind: &str, name: &str, valid_names: impl IntoIterator<Item = &'n str>) -> String {
    let nearest =
        similar(name, valid_names, 1).first().map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
    format!("unknown {kind} `{name}`{nearest}")
}

/// Names less similar than this are not suggested.
const LEAST_SIMILARITY: f64 = 0.7;

/// How similar two names are, from 0 to 1: entirely if only the order of their letters differs, as in a short name with a typo.
pub(super) fn name_similarity(a: &str, b: &str) -> f64 {
    let [of_a, of_b] = [a, b].map(|name| {
        let mut letters: Vec<_> = name.chars().collect();
        letters.sort_unstable();
        letters
    });
    if of_a == of_b { 1.0 } else { strsim::jaro_winkler(a, b) }
}

/// The names most similar to `name`, at most `count`, the most similar first.
pub(super) fn similar<'n>(name: &str, valid_names: impl IntoIterator<Item = &'n str>, count: usize) -> Vec<&'n str> {
    let scored = valid_names.into_iter().map(|valid_name| (name_similarity(name, valid_name), valid_name));
    let mut similar: Vec<_> = scored.filter(|(score, _)| *score > LEAST_SIMILARITY).collect();
    similar.arrange_by(|(a, _), (b, _)| b.total_cmp(a));
    similar.into_iter().take(count).map(|(_, valid_name)| valid_name).collect()
}

/// The column of the overview, metric, derived metric or `thread_count` of that name; if there is none, the error has the
/// most similar name.
pub fn parse_metric(name: &str) -> Result<Quantity, SelectError> {
    parse_metric_or(name, [])
}

/// A metric, where these other names are known too.
pub(crate) fn parse_metric_or<'n>(
    name: &str,
    others: impl IntoIterator<Item = &'n str>,
) -> Result<Quantity, SelectError> {
    let quantity = Quantity::named(if name == "threads" { "thread_count" } else { name });
    quantity.ok_or_else(|| SelectError(unknown_metric(name, others)))
}

/// The message about an unknown name of a metric, or of one of `others`. What every kernel has is suggested first.
pub(super) fn unknown_metric<'n>(name: &str, others: impl IntoIterator<Item = &'n str>) -> String {
    let (default, optional): (Vec<_>, Vec<_>) = Quantity::all().partition(|value| value.is_usual());
    let names = |values: Vec<Quantity>| values.into_iter().map(Quantity::name);
    let mut default_names: Vec<&str> = names(default).collect();
    default_names.extend(others);
    let is_near = !similar(name, default_names.iter().copied(), 1).is_empty();
    let message = unknown("metric", name, if is_near { default_names } else { names(optional).collect() });
    if message.ends_with('?') { message } else { message + " (`ctprof metrics` lists them)" }
}

pub(crate) fn parse_section(name: &str) -> Result<Section, SelectError> {
    let found = Section::ALL.iter().copied().find(|section| section.name() == name);
    found.ok_or_else(|| SelectError(unknown("section", name, Section::ALL.iter().copied().map(Section::name))))
}

/// A key `metric[:asc|desc|abs]` of a metric that has an order.
pub(crate) fn parse_sort_key(key: &str) -> Result<SortKey, SelectError> {
    let (name, order) = match key.split_once(':') {
        None => (key, Order::default()),
        Some((name, "asc")) => (name, Order::Asc),
        Some((name, "desc")) => (name, Order::Desc),
        Some((name, "abs")) => (name, Order::Abs),
        Some((_, other)) => return Err(SelectError(format!("unknown sort order `{other}` (asc, desc, abs)"))),
    };
    let by = parse_metric(name)?;
    let unsortable = || SelectError(format!("cannot sort by `{}`: it is a category", by.name()));
    by.has_order().then_some(SortKey { by, order }).ok_or_else(unsortable)
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
        assert_eq!(error("zzz"), "unknown metric `zzz` (`ctprof metrics` lists them)");
        let error = parse_section("iostat").unwrap_err().to_string();
        assert_eq!(error, "unknown section `iostat`; did you mean `io-stat`?");
    }

    #[test]
    fn sort_keys_have_a_name_and_an_order() {
        let key =
            |key: &str| parse_sort_key(key).map(|key| (key.by.name(), key.order)).map_err(|error| error.to_string());
        assert_eq!(key("wait_max"), Ok(("wait_max", Order::Desc)));
        assert_eq!(key("thread_count:asc"), Ok(("thread_count", Order::Asc)));
        assert_eq!(key("policy"), Err("cannot sort by `policy`: it is a category".to_owned()));
        assert_eq!(key("wait_max:up"), Err("unknown sort order `up` (asc, desc, abs)".to_owned()));
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
