//! Changes between two JSON values: numbers differ by an amount, everything else is replaced.

use serde_json::{Map, Value as Json};

/// The change from one value to another; `None` if they are equal. An object has the changes of its members, a number is added to
/// the one before, a list has the new value, and null removes a member.
pub(super) fn change(before: &Json, now: &Json) -> Option<Json> {
    match (before, now) {
        (before, now) if before == now => None,
        (Json::Object(before), Json::Object(now)) => {
            let kept = now.iter().filter_map(|(key, now)| {
                let change =
                    before.get(key).map_or_else(|| Some(Json::from(vec![now.clone()])), |old| change(old, now));
                Some((key.clone(), change?))
            });
            let removed = before.keys().filter(|key| !now.contains_key(*key)).map(|key| (key.clone(), Json::Null));
            Some(Json::Object(kept.chain(removed).collect()))
        }
        _ => Some(difference(before, now).map_or_else(|| Json::from(vec![now.clone()]), Json::from)),
    }
}

/// How much a whole number increased, if the sum of both is exact.
fn difference(before: &Json, now: &Json) -> Option<i64> {
    let (before, now) = (before.as_u64()?, now.as_u64()?);
    i64::try_from(i128::from(now) - i128::from(before)).ok()
}

/// Applies a change to a value; `None` if it does not fit.
pub(super) fn apply(value: &mut Json, change: Json) -> Option<()> {
    match change {
        Json::Array(mut new) => *value = new.pop()?,
        Json::Number(by) => *value = value.as_u64()?.checked_add_signed(by.as_i64()?)?.into(),
        Json::Object(changes) => {
            let members = value.as_object_mut()?;
            changes.into_iter().try_for_each(|(key, change)| apply_to_member(members, key, change))?;
        }
        _ => return None,
    }
    Some(())
}

fn apply_to_member(members: &mut Map<String, Json>, key: String, change: Json) -> Option<()> {
    if change.is_null() {
        members.remove(&key)?;
        return Some(());
    }
    apply(members.entry(key).or_insert(Json::Null), change)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn counters_are_differences_and_what_is_equal_is_left_out() {
        let before = json!({"a": {"usage": 5, "max": "max", "gone": 1}, "same": [1, 2], "load": 0.5});
        let now = json!({"a": {"usage": 9, "max": 7, "new": null}, "same": [1, 2], "load": 0.25});
        let expected = json!({"a": {"usage": 4, "max": [7], "gone": null, "new": [null]}, "load": [0.25]});
        assert_eq!(change(&before, &now), Some(expected));
        assert_eq!(change(&now, &now), None);
    }

    #[test]
    fn a_change_that_does_not_fit_is_refused() {
        for (value, change) in [
            (json!(5), json!(-6)),
            (json!("a"), json!(1)),
            (json!({}), json!({"a": null})),
            (json!(7), json!({"a": 1})),
            (json!(u64::MAX), json!(1)),
            (json!(1), json!([])),
            (json!({}), json!(true)),
        ] {
            assert_eq!(apply(&mut value.clone(), change.clone()), None, "{value} {change}");
        }
    }

    fn any_json() -> impl Strategy<Value = Json> {
        let leaf = prop_oneof![
            Just(Json::Null),
            any::<bool>().prop_map(Json::from),
            any::<u64>().prop_map(Json::from),
            any::<i64>().prop_map(Json::from),
            "[a-c]{0,2}".prop_map(Json::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Json::from),
                prop::collection::btree_map("[a-c]", inner, 0..4)
                    .prop_map(|map| Json::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_changed_leads_from_any_value_to_any_other(mut before in any_json(), now in any_json()) {
            if let Some(change) = change(&before, &now) {
                prop_assert_eq!(apply(&mut before, change), Some(()));
            }
            prop_assert_eq!(before, now);
        }
    }
}
