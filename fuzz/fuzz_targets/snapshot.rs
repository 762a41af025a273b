//! Snapshots as strangers may write them: the input is a zstd frame, or the JSON in one. What can be
//! read has to survive being written and read again, and to be shown in every way.
#![no_main]

use ctprof::compare::{CompareOptions, GroupBy, show};

mod formats;
mod stored;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Some(snapshot) = stored::load(input) else { return };
    assert_eq!(stored::again(&snapshot), snapshot);
    for group_by in [GroupBy::Pcomm, GroupBy::All] {
        let mut options = CompareOptions::default();
        options.grouping.axis = group_by;
        let view = show(&snapshot, &options);
        formats::write_all(&view);
    }
});
