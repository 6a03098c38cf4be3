//! Lines on the terminal: coloured and with a live status there, plain anywhere else.

use std::cell::{Cell, RefCell};
use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

/// Seconds between two lines that say "still waiting" where nothing can be overwritten.
const REMINDER: Duration = Duration::from_secs(10);
const FRAMES: [&str; 8] = ["⠋", "⠙", "⠸", "⠼", "⠴", "⠦", "⠧", "⠏"];

/// Who a line is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// Jobs and webhooks.
    Github,
    /// Machines.
    Ec2,
    /// Our records.
    Muster,
    /// The person at the terminal.
    Operator,
}

impl Who {
    const fn word(self) -> &'static str {
        match self {
            Self::Github => "GitHub",
            Self::Ec2 => "EC2",
            Self::Muster => "Muster",
            Self::Operator => "you",
        }
    }

    const fn colour(self) -> &'static str {
        match self {
            Self::Github => "35",
            Self::Ec2 => "33",
            Self::Muster => "36",
            Self::Operator => "32",
        }
    }
}

/// The terminal.
pub(crate) struct Screen {
    live: bool,
    coloured: bool,
    begun: Instant,
    said: Cell<Instant>,
    waiting: RefCell<String>,
}

impl Screen {
    pub(crate) fn new() -> Self {
        let live = std::io::stdout().is_terminal();
        let coloured = live && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let now = Instant::now();
        Self { live, coloured, begun: now, said: Cell::new(now), waiting: RefCell::default() }
    }

    /// A headline.
    pub(crate) fn chapter(&self, title: &str) {
        self.line(&format!("\n  {}\n", self.paint("1", title)));
    }

    /// A line of the story. `at` is when it happened, on the world's clock.
    pub(crate) fn tell(&self, at: jiff::Timestamp, who: Who, what: &str) {
        let at = at.strftime("%H:%M:%S%.3f").to_string();
        let who = self.paint(who.colour(), &format!("{:<8}", who.word()));
        self.line(&format!("  {}  {who}{what}", self.paint("2", &at)));
    }

    /// A sentence beside the story.
    pub(crate) fn note(&self, text: &str) {
        self.line(&format!("                {}", self.paint("2", text)));
    }

    /// The end of a chapter.
    pub(crate) fn done(&self, text: &str) {
        self.line(&format!("  {} {text}", self.paint("32;1", "✓")));
    }

    /// What went wrong.
    pub(crate) fn failed(&self, text: &str) {
        self.line(&format!("\n  {} {text}", self.paint("31;1", "✗")));
    }

    /// Says what is being waited for, so that silence never looks like a hang.
    pub(crate) fn wait(&self, what: &str) {
        let seconds = self.begun.elapsed().as_secs();
        if self.live {
            let frame = FRAMES[(self.begun.elapsed().as_millis() / 120) as usize % FRAMES.len()];
            self.put(&format!("\r\x1b[2K  {} {what} ({seconds} s)", self.paint("2", frame)));
            self.waiting.replace(what.to_owned());
        } else if self.said.get().elapsed() > REMINDER {
            self.line(&format!("  … {what} ({seconds} s since the start)"));
        }
    }

    fn line(&self, text: &str) {
        // A status line, if there is one, makes room.
        let clear = if self.waiting.take().is_empty() { "" } else { "\r\x1b[2K" };
        self.put(&format!("{clear}{text}\n"));
        self.said.set(Instant::now());
    }

    fn put(&self, text: &str) {
        let mut out = std::io::stdout().lock();
        // Whoever reads may have gone; the exit code still says how it went.
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }

    fn paint(&self, colour: &str, text: &str) -> String {
        if self.coloured { format!("\x1b[{colour}m{text}\x1b[0m") } else { text.to_owned() }
    }
}
