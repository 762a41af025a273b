//! The configuration of the running kernel, if it can be read.

use std::io::Read;
use std::path::Path;

use flate2::read::GzDecoder;

use super::files::HostFiles;
use crate::model::Built;

/// Longer texts are cut: a configuration has about 300 KB.
const MAX_CONFIG: u64 = 16 << 20;

pub(in crate::capture) struct Kconfig(Option<String>);

impl Kconfig {
    /// Reads `/proc/config.gz`, else `/boot/config-<release>`.
    pub(in crate::capture) fn read(files: &HostFiles<'_>, boot: &Path, release: Option<&str>) -> Self {
        let zipped = || text_of(GzDecoder::new(files.open(&files.roots.procfs.join("config.gz")).ok()?));
        let plain = || text_of(files.open(&boot.join(format!("config-{}", release?))).ok()?);
        Self(zipped().or_else(plain))
    }

    /// Whether `CONFIG_<option>` is `y`.
    pub(in crate::capture) fn built(&self, option: &str) -> Built {
        let Some(text) = &self.0 else { return Built::Unknown };
        let on = format!("CONFIG_{option}=y");
        if text.lines().any(|line| line == on) { Built::On } else { Built::Off }
    }
}

fn text_of(file: impl Read) -> Option<String> {
    let mut text = String::new();
    file.take(MAX_CONFIG).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::super::super::options::Roots;
    use super::*;

    const TEXT: &str = "# CONFIG_SCHEDSTATS is not set\nCONFIG_TASK_XACCT=y\nCONFIG_TASK_XACCT_MORE=m\n";

    fn options(kconfig: &Kconfig) -> [Built; 3] {
        ["TASK_XACCT", "SCHEDSTATS", "TASK_XACCT_MORE"].map(|option| kconfig.built(option))
    }

    #[test]
    fn an_option_is_on_off_or_unknown() {
        let dir = tempfile::tempdir().unwrap();
        let roots = Roots { procfs: dir.path().to_owned(), ..Roots::default() };
        let files = HostFiles::new(&roots);
        assert_eq!(options(&Kconfig::read(&files, dir.path(), Some("6.1"))), [Built::Unknown; 3]);
        fs::write(dir.path().join("config-6.1"), TEXT).unwrap();
        let expected = [Built::On, Built::Off, Built::Off];
        assert_eq!(options(&Kconfig::read(&files, dir.path(), Some("6.1"))), expected);
        let mut zip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        zip.write_all(TEXT.as_bytes()).unwrap();
        fs::write(dir.path().join("config.gz"), zip.finish().unwrap()).unwrap();
        assert_eq!(options(&Kconfig::read(&files, Path::new("/nonexistent"), None)), expected);
    }
}
