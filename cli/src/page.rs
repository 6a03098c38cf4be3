//! Lays out text for a screen: lines and tables, or tab-separated values for a pipe.

use anstyle::{AnsiColor, Effects, Style};
use comfy_table::{Attribute, Color, ColumnConstraint, ContentArrangement, Width, presets};

use crate::display::{clean, fitted, width};
use crate::table::{Cell, Column, ColumnKind, DataTable, Medium, Text, TextStyle};

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

impl TextStyle {
    fn style(self) -> Style {
        let colour = match self {
            Self::Plain | Self::Strong | Self::Dim => None,
            Self::Good => Some(AnsiColor::Green),
            Self::Warning => Some(AnsiColor::Yellow),
            Self::Bad => Some(AnsiColor::Red),
        };
        let effects = match self {
            Self::Strong => Effects::BOLD,
            Self::Dim => Effects::DIMMED,
            Self::Plain | Self::Good | Self::Warning | Self::Bad => Effects::new(),
        };
        Style::new().fg_color(colour.map(Into::into)).effects(effects)
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
        let fits = |part: Text| {
            let fitting = fitted(part.text(), left);
            let is_whole = fitting.len() == part.text().len();
            left = if is_whole { left.saturating_sub(width(fitting)) } else { 0 };
            Text::new(fitting, part.style())
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
                let line: Vec<&str> = row.iter().map(Text::text).collect();
                self.text.push_str(line.join(" ").trim());
                self.text.push('\n');
            }
            return;
        }
        self.columns(&[], &rows, 1);
    }

    /// Adds a text, wrapped at words.
    pub fn wrapped(&mut self, text: Text) {
        match self.is_piped() {
            true => self.line([text]),
            false => self.columns(&[], &[vec![text]], 0),
        }
    }

    /// Adds a table. In a pipe, its header and rows are tab-separated.
    pub fn table(&mut self, table: &DataTable) {
        let width = self.screen.width.unwrap_or(u16::MAX);
        let fits = |column: &Column| column.from <= width && column.medium != Medium::Browser;
        let mut shown: Vec<usize> =
            (0..table.columns.len()).filter(|index| fits(&table.columns[*index])).collect();
        if !self.is_piped() {
            make_room(&mut shown, table, usize::from(width));
        }
        let header: Vec<Column> = shown.iter().map(|index| table.columns[*index]).collect();
        let cell = |row: &Vec<Cell>, index: &usize| row.get(*index).map(|cell| cell.text.clone());
        let rows = table.rows.iter();
        let rows: Vec<Vec<Text>> =
            rows.map(|row| shown.iter().filter_map(|index| cell(row, index)).collect()).collect();
        if !self.is_piped() {
            self.columns(&header, &rows, 2);
            return;
        }
        let names: Vec<String> = header.iter().map(|column| column.title.to_uppercase()).collect();
        self.text.push_str(&names.join("\t"));
        self.text.push('\n');
        for row in rows {
            let cells = row.iter().map(|cell| if cell.is_none() { "" } else { cell.text() });
            self.text.push_str(&cells.collect::<Vec<_>>().join("\t"));
            self.text.push('\n');
        }
    }

    fn columns(&mut self, header: &[Column], rows: &[Vec<Text>], between: u16) {
        if rows.is_empty() {
            return;
        }
        let mut table = comfy_table::Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(self.screen.width.unwrap_or(u16::MAX));
        if self.screen.colour {
            table.enforce_styling();
        } else {
            table.force_no_tty();
        }
        if !header.is_empty() {
            let title = |column: &Column| comfy_table::Cell::new(column.title.to_uppercase());
            table.set_header(
                header.iter().map(|column| title(column).add_attribute(Attribute::Bold)),
            );
        }
        for row in rows {
            table.add_row(row.iter().map(cell));
        }
        for column in table.column_iter_mut() {
            column.set_padding((0, between));
        }
        for (column, told) in table.column_iter_mut().zip(header) {
            if told.kind != ColumnKind::Text {
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
        let style = part.style().style();
        if self.screen.colour && part.style() != TextStyle::Plain {
            format!("{style}{}{style:#}", part.text())
        } else {
            part.text().to_owned()
        }
    }
}

/// Removes optional columns, the last one first, until the columns of sentences have room.
fn make_room(shown: &mut Vec<usize>, table: &DataTable, room: usize) {
    const BETWEEN: usize = 2;
    const SENTENCE: u16 = 12;
    let wanted = |index: &usize| {
        let column = &table.columns[*index];
        if column.kind == ColumnKind::Text {
            return usize::from(column.least.max(SENTENCE)) + BETWEEN;
        }
        let cells = table.rows.iter().filter_map(|row| row.get(*index));
        let cells = cells.map(|cell| width(cell.text.text()));
        cells.chain([width(column.title)]).max().unwrap_or_default() + BETWEEN
    };
    while shown.iter().map(wanted).sum::<usize>() > room + BETWEEN {
        let is_optional = |index: &usize| table.columns[*index].is_optional;
        let Some(last) = shown.iter().rposition(is_optional) else { return };
        shown.remove(last);
    }
}

fn cell(text: &Text) -> comfy_table::Cell {
    let cell = comfy_table::Cell::new(text.text());
    match text.style() {
        TextStyle::Plain => cell,
        TextStyle::Strong => cell.add_attribute(Attribute::Bold),
        TextStyle::Dim => cell.add_attribute(Attribute::Dim),
        TextStyle::Good => cell.fg(Color::Green),
        TextStyle::Warning => cell.fg(Color::Yellow),
        TextStyle::Bad => cell.fg(Color::Red),
    }
}
