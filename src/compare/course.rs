//! Values in the course of a series, as reports have them.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Serialize;

use super::GroupReason;

/// The values of a column, or the time of a reason, in parts of equal length, by group.
#[derive(Debug, Default, Serialize)]
pub struct Trend {
    pub(crate) column: Cow<'static, str>,
    #[serde(skip)]
    pub(crate) reason: Option<Arc<GroupReason>>,
    pub(crate) unit: &'static str,
    /// When each part began, in nanoseconds since 1970.
    pub(crate) started_at_unix_ns: Vec<u64>,
    pub(crate) duration_ns: Vec<u64>,
    /// Trends of groups, by the key of the group; `null` in JSON where a value is unknown.
    pub(crate) groups: Vec<GroupTrend>,
}

#[derive(Debug, Serialize)]
pub(crate) struct GroupTrend {
    pub(crate) path: Vec<String>,
    pub(crate) values: Vec<f64>,
}
