//! Bar charts. Sizes are attributes and colours are classes, because the policy blocks inline styles and dark mode has
//! different colours. Each chart has a table with its figures.

use maud::{Markup, html};

/// A bar of stacked parts, bottom first.
pub(super) struct Bar {
    /// Its place on the horizontal axis.
    pub name: String,
    /// Its tooltip.
    pub title: String,
    /// The class and the size of each part.
    pub parts: Vec<(&'static str, u64)>,
}

/// Renders bars to one scale. `unit` formats a size with its unit.
pub(super) fn bars(label: &str, bars: &[Bar], unit: impl Fn(u64) -> String) -> Markup {
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
    let named = |index: usize| bars.get(index).map_or("", |bar| bar.name.as_str());
    let (middle, last) = (bars.len() / 2, bars.len().saturating_sub(1));
    html! {
        figure.plot {
            div.up aria-hidden="true" {
                span { (unit(largest)) } span { (unit(largest / 2)) } span { (unit(0)) }
            }
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
            div.along aria-hidden="true" {
                span { (named(0)) }
                @if middle > 0 && middle < last { span { (named(middle)) } }
                @if last > 0 { span { (named(last)) } }
            }
        }
    }
}
