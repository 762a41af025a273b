//! Packages: whether they install and forget every unit, and whether all who download archives know their names.

use std::fs;
use std::path::{Path, PathBuf};

use crate::links;

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

/// The files that a package has below the directory of its documents, as they are named in the manifest.
fn documents(assets: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for source in assets.lines().filter(|line| line.contains("usr/share/doc/ctprof/")) {
        let source = source.split('"').nth(1).unwrap();
        let paths = glob::glob(root().join(source).to_str().unwrap()).unwrap();
        found.extend(paths.map(|path| path.unwrap().strip_prefix(root()).unwrap().to_owned()));
    }
    found
}

#[test]
fn links_of_installed_documents_lead_to_installed_files() {
    let manifest = read("Cargo.toml");
    for package in ["[package.metadata.deb]", "[package.metadata.generate-rpm]"] {
        let installed = documents(manifest.split(package).nth(1).unwrap().split("\n]\n").next().unwrap());
        let mut links = 0;
        for document in installed.iter().filter(|path| path.extension().is_some_and(|extension| extension == "md")) {
            for target in links::targets(&read(document)) {
                let path = document.parent().unwrap().join(target.split('#').next().unwrap());
                let path = root().join(path).canonicalize().unwrap();
                let path = path.strip_prefix(root().canonicalize().unwrap()).unwrap();
                assert!(
                    installed.iter().any(|file| file.starts_with(path)),
                    "{package} {}: {target}",
                    document.display()
                );
                links += 1;
            }
        }
        assert!(links > 50, "{package}: {links} links");
    }
}

/// The rest of the only line that begins with these words.
fn after<'t>(text: &'t str, words: &str) -> &'t str {
    let mut lines = text.lines().filter_map(|line| line.trim_start().strip_prefix(words));
    let line = lines.next().unwrap_or_else(|| panic!("no line with {words}"));
    assert_eq!(lines.next(), None, "several lines with {words}");
    line
}

#[test]
fn binstall_and_the_action_download_the_archives_that_a_release_has() {
    let (manifest, package, action) = (read("Cargo.toml"), read(".ci/package"), read("action.yml"));
    let made = after(&package, "name=").replace("$version", "1.2.3").replace("$target", "x86_64-unknown-linux-musl");
    assert!(
        package.contains("-czf \"$out/$name.tar.gz\" \"$name\"") && package.contains("/dist/ctprof\" "),
        "{package}"
    );

    let filled = |key: &str| {
        let values =
            [("name", "ctprof"), ("bin", "ctprof"), ("version", "1.2.3"), ("target", "x86_64-unknown-linux-musl")];
        let template = after(&manifest, key).trim_matches('"').to_owned();
        values.iter().fold(template, |text, (name, value)| text.replace(&format!("{{ {name} }}"), value))
    };
    assert_eq!(filled("pkg-url = "), format!("{{ repo }}/releases/download/v1.2.3/{made}.tar.gz"));
    assert_eq!(filled("bin-dir = "), format!("{made}/ctprof"));

    let pattern = action.split("--pattern \"").nth(1).unwrap().split('"').next().unwrap();
    assert_eq!(pattern.replace('*', "1.2.3").replace("$(uname -m)", "x86_64"), format!("{made}.tar.gz"));
}
