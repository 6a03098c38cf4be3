//! The numbers, for people and for machines.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use serde_json::{Map, Value, json};

/// What a number counts.
#[derive(Clone, Copy)]
pub(crate) enum Unit {
    Millis,
    Megabytes,
    Count,
    PerSecond,
}

impl Unit {
    const fn name(self) -> &'static str {
        match self {
            Self::Millis => "ms",
            Self::Megabytes => "MB",
            Self::Count => "",
            Self::PerSecond => "/s",
        }
    }
}

struct Line {
    function: &'static str,
    what: &'static str,
    value: f64,
    unit: Unit,
    goal: Option<Goal>,
}

struct Goal {
    bound: f64,
    /// The value should be the bound or less; otherwise, or more.
    is_upper: bool,
}

impl Line {
    fn is_met(&self) -> Option<bool> {
        let goal = self.goal.as_ref()?;
        Some(if goal.is_upper { self.value <= goal.bound } else { self.value >= goal.bound })
    }
}

/// Everything measured.
#[derive(Default)]
pub(crate) struct Report {
    lines: Vec<Line>,
    notes: Vec<(&'static str, &'static str, Value)>,
}

impl Report {
    /// A number, and what it should be at most.
    pub(crate) fn add(
        &mut self,
        function: &'static str,
        what: &'static str,
        value: f64,
        unit: Unit,
        goal: Option<f64>,
    ) {
        let goal = goal.map(|bound| Goal { bound, is_upper: true });
        self.lines.push(Line { function, what, value, unit, goal });
    }

    /// A number, and what it should be at least.
    pub(crate) fn add_at_least(
        &mut self,
        function: &'static str,
        what: &'static str,
        value: f64,
        unit: Unit,
        bound: f64,
    ) {
        let goal = Some(Goal { bound, is_upper: false });
        self.lines.push(Line { function, what, value, unit, goal });
    }

    /// Something to know beside the numbers.
    pub(crate) fn note(&mut self, function: &'static str, what: &'static str, value: Value) {
        self.notes.push((function, what, value));
    }

    /// Prints the table.
    pub(crate) fn print(&self) {
        let mut table = String::new();
        let head = ("function", "what", "measured", "goal");
        row(&mut table, [head.0, head.1, head.2, head.3, ""]);
        for line in &self.lines {
            let unit = line.unit.name();
            let goal = line.goal.as_ref().map_or_else(String::new, |goal| {
                let sign = if goal.is_upper { "<=" } else { ">=" };
                format!("{sign} {} {unit}", goal.bound)
            });
            let verdict = match line.is_met() {
                Some(true) => "met",
                Some(false) => "MISSED",
                None => "",
            };
            let value = format!("{} {unit}", number(line.value, line.unit));
            row(&mut table, [line.function, line.what, value.trim_end(), goal.trim_end(), verdict]);
        }
        for (function, what, value) in &self.notes {
            let _ = writeln!(table, "{function}: {what}: {value}");
        }
        // A reader that went away is no reason to fail.
        let _ = std::io::stdout().lock().write_all(table.as_bytes());
    }

    /// Writes the result as JSON.
    pub(crate) fn write(&self, path: &Path) -> std::io::Result<()> {
        let mut functions: Map<String, Value> = Map::new();
        for line in &self.lines {
            let goal = line.goal.as_ref().map(|goal| goal.bound);
            let entry = json!({
                "value": line.value, "unit": line.unit.name(), "goal": goal, "met": line.is_met()
            });
            functions.entry(line.function).or_insert_with(|| json!({}))[line.what] = entry;
        }
        for (function, what, value) in &self.notes {
            functions.entry(*function).or_insert_with(|| json!({}))[*what] = value.clone();
        }
        let text = serde_json::to_string_pretty(&json!({"functions": functions}))?;
        std::fs::write(path, text + "\n")
    }
}

fn row(table: &mut String, cells: [&str; 5]) {
    let [function, what, value, goal, verdict] = cells;
    let line = format!("{function:<11} {what:<28} {value:>14}  {goal:<12} {verdict}");
    // Writing to a String cannot fail.
    let _ = writeln!(table, "{}", line.trim_end());
}

fn number(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Millis if value < 10.0 => format!("{value:.3}"),
        Unit::Millis => format!("{value:.1}"),
        Unit::Megabytes => format!("{value:.2}"),
        Unit::Count | Unit::PerSecond => format!("{value:.0}"),
    }
}

/// Says what went wrong.
pub(crate) fn complain(problem: &str) {
    let _ = writeln!(std::io::stderr(), "muster-bench: {problem}");
}
