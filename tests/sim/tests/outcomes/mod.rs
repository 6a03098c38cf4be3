//! The outcome of each story and of each undisturbed pass, a line each, in one file.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Mutex;

use muster_sim::summary::Summary;

/// The name of a pass begins with it; all others are stories.
pub(crate) const PASS: &str = "pass: ";
/// Where the numbers begin.
const WIDTH: usize = 64;

/// One writer at a time: the tests of a program run side by side.
static FILE: Mutex<()> = Mutex::new(());

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/outcomes/outcomes.txt")
}

fn name_of(line: &str) -> &str {
    line.get(..WIDTH).unwrap_or(line).trim_end()
}

/// Compares an outcome with the recorded one, or records it with `UPDATE=1`.
pub(crate) fn compare(name: &str, outcome: &Summary) -> Result<(), String> {
    let line = format!("{name:<WIDTH$}{outcome}");
    let _one = FILE.lock().map_err(|error| error.to_string())?;
    let recorded = std::fs::read_to_string(path()).unwrap_or_default();
    let old = recorded.lines().find(|line| name_of(line) == name);
    if old == Some(line.as_str()) {
        return Ok(());
    }
    if std::env::var_os("UPDATE").is_some() {
        return write(
            recorded.lines().skip(1).filter(|line| name_of(line) != name).chain([&*line]),
        );
    }
    let (head, was) = (head(), old.unwrap_or("nothing on record"));
    Err(format!(
        "the outcome is another one, UPDATE=1 records it\n    {head}\nwas {was}\nis  {line}"
    ))
}

/// Fails where a line belongs to nothing any more, or removes it with `UPDATE=1`.
pub(crate) fn belong_to(is_known: impl Fn(&str) -> bool) -> Result<(), String> {
    let _one = FILE.lock().map_err(|error| error.to_string())?;
    let recorded = std::fs::read_to_string(path()).unwrap_or_default();
    let lines = || recorded.lines().skip(1);
    match lines().find(|line| !is_known(name_of(line))) {
        None => Ok(()),
        Some(_) if std::env::var_os("UPDATE").is_some() => {
            write(lines().filter(|line| is_known(name_of(line))))
        }
        Some(line) => Err(format!("{:?} is no more, UPDATE=1 removes its outcome", name_of(line))),
    }
}

fn head() -> String {
    let mut head = format!("{:<WIDTH$}", "name");
    for name in Summary::names() {
        write!(head, "{name:>8}").expect("written");
    }
    head
}

fn write<'a>(lines: impl Iterator<Item = &'a str>) -> Result<(), String> {
    let mut lines: Vec<&str> = lines.collect();
    lines.sort_unstable();
    std::fs::write(path(), format!("{}\n{}\n", head(), lines.join("\n")))
        .map_err(|error| error.to_string())
}
