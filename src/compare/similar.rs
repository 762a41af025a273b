//! Names similar to a misspelled one.

/// Names less similar than this are not suggested.
const LEAST_SIMILARITY: f64 = 0.7;

/// The names most similar to `name`, at most `count`, the most similar first.
pub(super) fn similar<'n>(name: &str, known: impl IntoIterator<Item = &'n str>, count: usize) -> Vec<&'n str> {
    let scored = known.into_iter().map(|known| (strsim::jaro_winkler(name, known), known));
    let mut similar: Vec<_> = scored.filter(|(score, _)| *score > LEAST_SIMILARITY).collect();
    similar.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    similar.into_iter().take(count).map(|(_, known)| known).collect()
}
