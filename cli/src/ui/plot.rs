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

/// Renders a line of the last day, with its maximum in words; `None` without a point.
pub(super) fn line(points: &[Option<u64>]) -> Option<Markup> {
    const HEIGHT: u64 = 20;
    let largest = points.iter().flatten().copied().max()?;
    let height = |value: u64| HEIGHT - value * HEIGHT / largest.max(1);
    let mut path = String::new();
    let mut is_open = false;
    for (index, point) in points.iter().enumerate() {
        if let Some(value) = point {
            let step = if is_open { 'L' } else { 'M' };
            path.push_str(&format!("{step}{index} {} ", height(*value)));
            // A single point is a line without a length, which has a round end.
            if !is_open {
                path.push_str("h0 ");
            }
        }
        is_open = point.is_some();
    }
    let most = super::text::number(usize::try_from(largest).unwrap_or(usize::MAX));
    let label = format!("Last 24 hours: at most {most}");
    Some(html! {
        svg.trend viewBox={ "0 -1 " (points.len()) " " (HEIGHT + 2) } preserveAspectRatio="none" role="img" aria-label=(label) {
            path d=(path.trim_end()) {}
        }
        span.quiet.small aria-hidden="true" { "24 h, at most " (most) }
    })
}
