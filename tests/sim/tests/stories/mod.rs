//! The files under `tests/scenarios`.

use std::path::{Path, PathBuf};

/// Every scenario: its path, its name and its text.
pub(crate) fn scenarios() -> Vec<(PathBuf, String, String)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios");
    let mut all: Vec<_> = std::fs::read_dir(&directory)
        .expect("the scenarios")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .map(|path| {
            let name =
                path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().to_owned();
            let text = std::fs::read_to_string(&path).expect("readable");
            (path, name, text)
        })
        .collect();
    all.sort();
    all
}
