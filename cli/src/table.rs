//! Tables as data: columns and cells. `page` renders them for terminals and pipes, `ui::parts` for browsers.

use muster_domain::ids::{JobKey, PoolName};
use muster_domain::time::Time;

use crate::args::Dead;
use crate::display::clean;
use crate::words::clock;

/// The style of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TextStyle {
    #[default]
    Plain,
    /// Headings.
    Strong,
    /// Less important text.
    Dim,
    Good,
    Warning,
    Bad,
}

/// A text and its style.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    raw: String,
    clean: String,
    style: TextStyle,
}

impl Text {
    #[must_use]
    pub fn new(text: impl AsRef<str>, style: TextStyle) -> Self {
        let raw = text.as_ref();
        Self { raw: raw.to_owned(), clean: clean(raw), style }
    }

    /// Returns the text, safe for a terminal.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.clean
    }

    /// Returns the text with its hidden characters, for a renderer that marks them.
    #[must_use]
    pub(crate) fn raw(&self) -> &str {
        &self.raw
    }

    #[must_use]
    pub const fn style(&self) -> TextStyle {
        self.style
    }

    /// Returns the placeholder for a missing value.
    #[must_use]
    pub fn none() -> Self {
        Self::new("–", TextStyle::Dim)
    }

    /// Formats a value; the placeholder if it is missing.
    #[must_use]
    pub fn known(value: Option<impl ToString>) -> Self {
        value.map_or_else(Self::none, |value| value.to_string().into())
    }

    #[must_use]
    pub fn is_none(&self) -> bool {
        self.raw == "–"
    }
}

impl<T: AsRef<str>> From<T> for Text {
    fn from(text: T) -> Self {
        Self::new(text, TextStyle::Plain)
    }
}

/// How the cells of a column are wrapped and aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// Sentences, which wrap.
    Text,
    /// Names that people copy. A terminal never wraps them.
    Name,
    /// Short values, which never wrap.
    Short,
    /// Figures.
    Number,
}

/// Where a column is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    All,
    /// Terminals and pipes.
    Terminal,
    Browser,
}

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// In sentence case.
    pub title: &'static str,
    pub kind: ColumnKind,
    /// Minimum width on a terminal, so that no name in it is wrapped.
    pub least: u16,
    /// Shown only on terminals of at least this width, and in pipes.
    pub from: u16,
    pub medium: Medium,
    /// Left out on a terminal that has no room for it.
    pub is_optional: bool,
    /// In a browser, shown below the value of the column before it.
    pub is_below: bool,
    /// On a phone, shown directly below the row's name.
    pub is_lead: bool,
}

impl Column {
    const fn new(title: &'static str, kind: ColumnKind) -> Self {
        let medium = Medium::All;
        let (is_optional, is_below, is_lead) = (false, false, false);
        Self { title, kind, least: 0, from: 0, medium, is_optional, is_below, is_lead }
    }

    #[must_use]
    pub const fn text(title: &'static str) -> Self {
        Self::new(title, ColumnKind::Text)
    }

    #[must_use]
    pub const fn name(title: &'static str) -> Self {
        Self::new(title, ColumnKind::Name)
    }

    #[must_use]
    pub const fn short(title: &'static str) -> Self {
        Self::new(title, ColumnKind::Short)
    }

    #[must_use]
    pub const fn number(title: &'static str) -> Self {
        Self::new(title, ColumnKind::Number)
    }

    #[must_use]
    pub const fn at_least(self, least: u16) -> Self {
        Self { least, ..self }
    }

    #[must_use]
    pub const fn from(self, width: u16) -> Self {
        Self { from: width, is_optional: true, ..self }
    }

    #[must_use]
    pub const fn optional(self) -> Self {
        Self { is_optional: true, ..self }
    }

    #[must_use]
    pub const fn only(self, medium: Medium) -> Self {
        Self { medium, ..self }
    }

    #[must_use]
    pub const fn below(self) -> Self {
        Self { is_below: true, ..self }
    }

    #[must_use]
    pub const fn lead(self) -> Self {
        Self { is_lead: true, ..self }
    }
}

/// What a cell names. A browser links it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    Instance(String),
    Pool(PoolName),
    Job(JobKey),
    DeadLetters(Dead),
    /// The subject of an audit line.
    Audited(String),
    /// A page of `muster ui`, by its address.
    Page(String),
}

/// What a browser adds to a cell's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CellKind {
    Plain,
    /// A dot in the colour of the style.
    State,
    Link(Subject),
    /// The full time as a tooltip.
    Time(Time),
    /// A bar of the used part.
    Room {
        used: usize,
        max: usize,
    },
}

/// A cell of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    pub text: Text,
    pub kind: CellKind,
}

impl Cell {
    #[must_use]
    pub const fn state(text: Text) -> Self {
        Self { text, kind: CellKind::State }
    }

    #[must_use]
    pub fn link(text: impl Into<Text>, subject: Subject) -> Self {
        Self { text: text.into(), kind: CellKind::Link(subject) }
    }

    /// Creates a link to a pool; the placeholder if there is none.
    #[must_use]
    pub fn pool(name: Option<&PoolName>) -> Self {
        match name {
            Some(name) => Self::link(name.as_str(), Subject::Pool(name.clone())),
            None => Text::none().into(),
        }
    }

    #[must_use]
    pub fn time(at: Option<Time>, now: Time) -> Self {
        match at {
            Some(at) => Self { text: clock(at, now).into(), kind: CellKind::Time(at) },
            None => Text::none().into(),
        }
    }

    #[must_use]
    pub fn room(used: usize, max: usize, style: TextStyle) -> Self {
        let text = Text::new(format!("{used}/{max}"), style);
        Self { text, kind: CellKind::Room { used, max } }
    }
}

impl<T: Into<Text>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self { text: text.into(), kind: CellKind::Plain }
    }
}

/// Columns and rows. Each row has a cell per column.
#[derive(Clone, Debug)]
pub struct DataTable {
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<Cell>>,
}

impl DataTable {
    #[must_use]
    pub fn new<C: Into<Cell>>(
        columns: impl Into<Vec<Column>>,
        rows: impl IntoIterator<Item = Vec<C>>,
    ) -> Self {
        let columns = columns.into();
        let row = |row: Vec<C>| {
            debug_assert_eq!(row.len(), columns.len(), "a cell for each of {columns:?}");
            row.into_iter().map(Into::into).collect()
        };
        Self { rows: rows.into_iter().map(row).collect(), columns }
    }

    /// Removes the columns for which `is_shown` is false.
    pub fn keep(&mut self, is_shown: impl Fn(&Column) -> bool) {
        let kept: Vec<bool> = self.columns.iter().map(is_shown).collect();
        let mut of_row = kept.iter();
        self.columns.retain(|_| of_row.next().copied().unwrap_or_default());
        for row in &mut self.rows {
            let mut of_row = kept.iter();
            row.retain(|_| of_row.next().copied().unwrap_or_default());
        }
    }
}
