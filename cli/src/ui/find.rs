//! Filters and pages of lists. A view is an address, so each filter is a link.

use maud::{Markup, html};

use super::page::Filter;
use super::text::number;

/// Number of rows per page.
const ROWS: usize = 100;

/// The rows of one page, and the total.
pub(super) struct PageRows<'a, T> {
    pub rows: Vec<&'a T>,
    from: usize,
    of: usize,
}

impl<'a, T> PageRows<'a, T> {
    pub(super) fn of(all: impl Iterator<Item = &'a T>, filter: &Filter) -> Self {
        let all: Vec<&T> = all.collect();
        // The list may have become shorter.
        let last = all.len().saturating_sub(1) / ROWS * ROWS;
        let (from, of) = (filter.from.min(last), all.len());
        Self { rows: all.into_iter().skip(from).take(ROWS).collect(), from, of }
    }
}

impl Filter {
    pub(super) fn has_pool(&self, pool: &str) -> bool {
        self.pool.as_deref().is_none_or(|wanted| wanted == pool)
    }

    /// Returns whether one of the words contains the search text.
    pub(super) fn has_text<T: AsRef<str>>(&self, words: &[T]) -> bool {
        let Some(text) = self.text.as_ref().map(|text| text.trim().to_lowercase()) else {
            return true;
        };
        words.iter().any(|word| word.as_ref().to_lowercase().contains(&text))
    }
}

/// Renders the filters with their counts, and the search form.
pub(super) fn search(
    filter: &Filter,
    kinds: &[(&str, &str, Option<usize>)],
    pools: &[&str],
    page: &dyn Fn(Filter) -> String,
) -> Markup {
    let now = filter.state.as_deref().unwrap_or_default();
    let kind = |word: &str| {
        let state = (!word.is_empty()).then(|| word.to_owned());
        page(Filter { state, from: 0, ..filter.clone() })
    };
    let path = page(Filter::default());
    html! {
        div.find {
            nav aria-label="Kinds" { ul { @for (word, name, count) in kinds {
                li { a href=(kind(word)) aria-current=[(*word == now).then_some("true")] { (name) @if let Some(count) = count { " " span.count { (number(*count)) } } } }
            } } }
            form action=(path) role="search" aria-label="Narrow the list" {
                @if !now.is_empty() { input type="hidden" name="state" value=(now); }
                label { span { "Find" } input type="search" name="q" value=[filter.text.as_deref()] autocomplete="off" spellcheck="false"; }
                label { span { "Pool" } select name="pool" {
                    option value="" { "all" }
                    @if let Some(own) = filter.pool.as_deref().filter(|own| !pools.contains(own)) {
                        option value=(own) selected { (own) }
                    }
                    @for pool in pools {
                        option value=(pool) selected[filter.pool.as_deref() == Some(pool)] { (pool) }
                    }
                } }
                button { "Show" }
                @if filter.text.is_some() || filter.pool.is_some() {
                    a href=(page(Filter { state: filter.state.clone(), ..Filter::default() })) { "Clear" }
                }
            }
        }
    }
}

/// Renders the position in the list, and links to the previous and next rows.
pub(super) fn pager<T>(
    found: &PageRows<'_, T>,
    filter: &Filter,
    page: &dyn Fn(Filter) -> String,
) -> Markup {
    let PageRows { rows, from, of } = found;
    if *of <= ROWS {
        return html! {};
    }
    let at = |from| page(Filter { from, ..filter.clone() });
    let next = from + ROWS;
    html! {
        nav.pager aria-label="Rows" {
            @if *from > 0 { a rel="prev" href=(at(from.saturating_sub(ROWS))) { "← Previous " (ROWS) } }
            span { (number(from + 1)) "–" (number(from + rows.len())) " of " (number(*of)) }
            @if next < *of { a rel="next" href=(at(next)) { "Next " (ROWS) " →" } }
        }
    }
}
