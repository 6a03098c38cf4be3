//! Lays out text for a screen: lines and tables, or tab-separated values for a pipe.

use anstyle::{AnsiColor, Effects, Style};
use comfy_table::{
    Attribute, Cell, Color, ColumnConstraint, ContentArrangement, Table, Width, presets,
};

use crate::display::{clean, fitted, width};

/// The output's properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Screen {
    /// The terminal's width; `None` for a pipe.
    pub width: Option<u16>,
    /// Whether colours are used.
    pub colour: bool,
}

impl Screen {
    /// A pipe.
    pub const PIPE: Self = Self { width: None, colour: false };
}

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

impl TextStyle {
    fn colour(self) -> Option<AnsiColor> {
        match self {
            Self::Plain | Self::Strong | Self::Dim => None,
            Self::Good => Some(AnsiColor::Green),
            Self::Warning => Some(AnsiColor::Yellow),
            Self::Bad => Some(AnsiColor::Red),
        }
    }

    fn style(self) -> Style {
        let effects = match self {
            Self::Strong => Effects::BOLD,
            Self::Dim => Effects::DIMMED,
            Self::Plain | Self::Good | Self::Warning | Self::Bad => Effects::new(),
        };
        Style::new().fg_color(self.colour().map(Into::into)).effects(effects)
    }
}

/// A text and its style. The text is made safe for a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    text: String,
    look: TextStyle,
}

impl Text {
    #[must_use]
    pub fn new(text: impl AsRef<str>, look: TextStyle) -> Self {
        Self { text: clean(text.as_ref()), look }
    }

    /// Returns the text without its style.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the placeholder for a missing value.
    #[must_use]
    pub fn none() -> Self {
        Self::new("–", TextStyle::Dim)
    }
}

impl<T: AsRef<str>> From<T> for Text {
    fn from(text: T) -> Self {
        Self::new(text, TextStyle::Plain)
    }
}

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    name: &'static str,
    /// Never wrapped, because people copy it.
    is_whole: bool,
    /// Minimum width, so that no name in it is wrapped.
    least: u16,
    /// Shown only on screens of at least this width.
    from: u16,
}

impl Column {
    /// A column of text that wraps.
    #[must_use]
    pub const fn text(name: &'static str) -> Self {
        Self { name, is_whole: false, least: 0, from: 0 }
    }

    /// A column of names or figures that never wraps.
    #[must_use]
    pub const fn whole(name: &'static str) -> Self {
        Self { name, is_whole: true, least: 0, from: 0 }
    }

    /// Sets the minimum width.
    #[must_use]
    pub const fn at_least(self, least: u16) -> Self {
        Self { least, ..self }
    }

    /// Shows the column only on screens of at least this width, and in pipes.
    #[must_use]
    pub const fn from(self, width: u16) -> Self {
        Self { from: width, ..self }
    }
}

/// A text that is built from top to bottom.
#[derive(Clone, Debug)]
pub struct TextPage {
    screen: Screen,
    text: String,
}

impl TextPage {
    #[must_use]
    pub const fn new(screen: Screen) -> Self {
        Self { screen, text: String::new() }
    }

    /// Returns whether the output is a pipe.
    #[must_use]
    pub const fn is_piped(&self) -> bool {
        self.screen.width.is_none()
    }

    /// Returns the maximum width; `None` for a pipe.
    #[must_use]
    pub const fn width(&self) -> Option<u16> {
        self.screen.width
    }

    /// Returns the whole text.
    #[must_use]
    pub fn into_text(self) -> String {
        self.text
    }

    /// Adds an empty line unless the page is empty.
    pub fn gap(&mut self) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
    }

    /// Adds a line. The terminal wraps it if it is too long.
    pub fn line(&mut self, parts: impl IntoIterator<Item = Text>) {
        let parts: Vec<String> = parts.into_iter().map(|part| self.dressed(&part)).collect();
        self.text.push_str(parts.concat().trim_end());
        self.text.push('\n');
    }

    /// Adds a line that is cut off at the screen's width.
    pub fn cut(&mut self, parts: impl IntoIterator<Item = Text>) {
        let mut left = self.screen.width.map_or(usize::MAX, usize::from);
        let fits = |mut part: Text| {
            let fitting = fitted(&part.text, left).len();
            let is_whole = fitting == part.text.len();
            part.text.truncate(fitting);
            left = if is_whole { left.saturating_sub(width(&part.text)) } else { 0 };
            part
        };
        let parts: Vec<Text> = parts.into_iter().map(fits).collect();
        self.line(parts);
    }

    /// Adds a tab-separated line, for a pipe.
    pub fn tabs(&mut self, parts: &[&str]) {
        let parts: Vec<String> = parts.iter().map(|part| clean(part)).collect();
        self.text.push_str(parts.join("\t").trim_end());
        self.text.push('\n');
    }

    /// Adds sentences with a mark before each, wrapped at words.
    pub fn marked(&mut self, rows: impl IntoIterator<Item = (Text, Text)>) {
        let rows: Vec<Vec<Text>> = rows.into_iter().map(|(mark, said)| vec![mark, said]).collect();
        if self.is_piped() {
            for row in rows {
                let line: Vec<&str> = row.iter().map(|part| part.text.as_str()).collect();
                self.text.push_str(line.join(" ").trim());
                self.text.push('\n');
            }
            return;
        }
        self.columns(&[], rows, 1);
    }

    /// Adds a text, wrapped at words.
    pub fn wrapped(&mut self, text: Text) {
        match self.is_piped() {
            true => self.line([text]),
            false => self.columns(&[], vec![vec![text]], 0),
        }
    }

    /// Adds a table. In a pipe, its header and rows are tab-separated.
    pub fn table(&mut self, header: &[Column], rows: Vec<Vec<Text>>) {
        let Some(width) = self.screen.width else {
            let names: Vec<&str> = header.iter().map(|column| column.name).collect();
            self.text.push_str(&names.join("\t"));
            self.text.push('\n');
            for row in rows {
                let cells = row.iter().map(|cell| if cell.text == "–" { "" } else { &cell.text });
                self.text.push_str(&cells.collect::<Vec<_>>().join("\t"));
                self.text.push('\n');
            }
            return;
        };
        let fits = |index: &usize| header[*index].from <= width;
        let shown: Vec<usize> = (0..header.len()).filter(fits).collect();
        let header: Vec<Column> = shown.iter().map(|index| header[*index]).collect();
        let of_row =
            |row: Vec<Text>| shown.iter().filter_map(|index| row.get(*index).cloned()).collect();
        self.columns(&header, rows.into_iter().map(of_row).collect(), 2);
    }

    fn columns(&mut self, header: &[Column], rows: Vec<Vec<Text>>, between: u16) {
        if rows.is_empty() {
            return;
        }
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(self.screen.width.unwrap_or(u16::MAX));
        if self.screen.colour {
            table.enforce_styling();
        } else {
            table.force_no_tty();
        }
        if !header.is_empty() {
            table.set_header(
                header.iter().map(|column| Cell::new(column.name).add_attribute(Attribute::Bold)),
            );
        }
        for row in rows {
            table.add_row(row.into_iter().map(cell));
        }
        for column in table.column_iter_mut() {
            column.set_padding((0, between));
        }
        for (column, told) in table.column_iter_mut().zip(header) {
            if told.is_whole {
                column.set_constraint(ColumnConstraint::ContentWidth);
            } else if told.least > 0 {
                column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(told.least)));
            }
        }
        for line in table.lines() {
            self.text.push_str(line.trim_end());
            self.text.push('\n');
        }
    }

    fn dressed(&self, part: &Text) -> String {
        let style = part.look.style();
        if self.screen.colour && part.look != TextStyle::Plain {
            format!("{style}{}{style:#}", part.text)
        } else {
            part.text.clone()
        }
    }
}

fn cell(text: Text) -> Cell {
    let cell = Cell::new(text.text);
    match text.look {
        TextStyle::Plain => cell,
        TextStyle::Strong => cell.add_attribute(Attribute::Bold),
        TextStyle::Dim => cell.add_attribute(Attribute::Dim),
        TextStyle::Good => cell.fg(Color::Green),
        TextStyle::Warning => cell.fg(Color::Yellow),
        TextStyle::Bad => cell.fg(Color::Red),
    }
}
