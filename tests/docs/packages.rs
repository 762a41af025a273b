//! Packages: whether they install and forget every unit.

use std::fs;
use std::path::Path;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

#[test]
fn every_unit_is_in_both_packages_and_goes_with_them() {
    let (manifest, purge) = (read("Cargo.toml"), read("packaging/debian/postrm"));
    let names = fs::read_dir(root().join("packaging")).unwrap().map(|entry| entry.unwrap().file_name());
    let units: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
    for (unit, (stem, kind)) in units.iter().filter_map(|name| Some((name, name.split_once('.')?))) {
        let text = read(format!("packaging/{unit}"));
        if kind == "default" {
            continue;
        }
        assert!(manifest.contains(&format!("unit-name = \"{stem}\"")), "{unit} is not in the Debian package");
        assert!(manifest.contains(&format!("packaging/*.{kind}")), "{unit} is not in the RPM package");
        let disabled = manifest.lines().any(|line| line.contains("disable --now") && line.contains(unit.as_str()));
        assert!(disabled || !text.contains("[Install]"), "{unit} stays enabled without the RPM package");
        for state in text.lines().filter_map(|line| line.strip_prefix("StateDirectory=")) {
            assert!(purge.contains(&format!(" /var/lib/private/{state}")), "{unit}: its files are not purged");
        }
    }
}
