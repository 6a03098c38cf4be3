//! Bars beside each other. Sizes are attributes and colours are classes: the policy lets no style
//! through, and dark pages have other colours. Each plot has its figures in a table behind it.

use maud::{Markup, html};

/// A bar of stacked parts, from below.
pub(super) struct Bar {
    /// What it says to whoever points at it.
    pub title: String,
    /// The class and the size of each part.
    pub parts: Vec<(&'static str, u64)>,
}

/// Bars to one scale. `most`: the size of the largest, in words.
pub(super) fn bars(label: &str, bars: &[Bar], most: impl Fn(u64) -> String) -> Markup {
    const HEIGHT: u64 = 1_000;
    const WIDTH: usize = 10;
    let size = |bar: &Bar| bar.parts.iter().map(|(_, size)| size).sum::<u64>();
    let largest = bars.iter().map(size).max().unwrap_or_default();
    if largest == 0 {
        return html! {};
    }
    let height =
        |size: u64| u64::try_from(u128::from(size) * u128::from(HEIGHT) / u128::from(largest));
    let placed = |bar: &Bar| {
        let mut below = 0;
        let one = |(class, size): &(&'static str, u64)| {
            let height = height(*size).unwrap_or_default();
            below += height;
            (*class, HEIGHT.saturating_sub(below), height)
        };
        bar.parts.iter().map(one).collect::<Vec<_>>()
    };
    html! {
        figure.plot {
            svg viewBox={ "0 0 " (bars.len() * WIDTH) " " (HEIGHT) } preserveAspectRatio="none" role="img" aria-label=(label) {
                @for (index, bar) in bars.iter().enumerate() {
                    g {
                        title { (bar.title) }
                        rect.nothing x=(index * WIDTH) width=(WIDTH) height=(HEIGHT) {}
                        @for (class, y, height) in placed(bar) {
                            rect class=(class) x=(index * WIDTH + 1) y=(y) width=(WIDTH - 2) height=(height) {}
                        }
                    }
                }
            }
            figcaption.quiet { "The highest: " (most(largest)) }
        }
    }
}
