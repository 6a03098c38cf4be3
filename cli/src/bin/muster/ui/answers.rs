//! Handlers: the answer to each request of a browser.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::Response;
use muster_cli::failure::Failure;
use muster_cli::orders::Order;
use muster_cli::orders::plan::OrderPlan;
use muster_cli::ui::assets::{self, Asset};
use muster_cli::ui::confirm::{self, ConfirmForm};
use muster_cli::ui::done::{self, OrderResult};
use muster_cli::ui::door::PageRequest;
use muster_cli::ui::fields::Fields;
use muster_cli::ui::go::{self, Way};
use muster_cli::ui::memory::PageQuery;
use muster_cli::ui::page::UiPage;
use muster_cli::ui::{frame, render};
use muster_cli::views::costs::csv;
use tokio::time::timeout;

use super::{Ui, live, with};
use crate::host::now;
use crate::http::github;

const HTML: &str = "text/html; charset=utf-8";
/// How long a page waits for an answer that it needs.
const PATIENCE: Duration = Duration::from_secs(8);

/// Answers a GET: a page, a file or an event stream.
pub(super) async fn get(ui: &Arc<Ui>, request: &PageRequest) -> Response<Body> {
    let fields = Fields::read(request.query.as_bytes());
    if let Some(asset) = assets::at(&request.path) {
        return file(asset);
    }
    match request.path.as_str() {
        "/live" => live::stream(ui, &fields),
        "/costs.csv" => costs_csv(ui, &fields).await,
        "/go" => find_page(ui, fields.get("name").unwrap_or_default()).await,
        "/refresh" => {
            ui.memory().expire(now());
            to(ui, &frame::target(&fields).address())
        }
        path => match path.strip_prefix("/confirm/") {
            Some(_) if ui.about.is_read_only => html(ui, 404, &frame::missing(&ui.about)),
            Some(action) => match Order::read(action, &fields) {
                Some(order) => confirm_order(ui, &order).await,
                None => html(ui, 404, &confirm::unread(action, &ui.about)),
            },
            None => match UiPage::read(path, &fields) {
                Some(page) => show_page(ui, &page).await,
                None => html(ui, 404, &frame::missing(&ui.about)),
            },
        },
    }
}

/// Renders a page from the cache. If nothing is cached yet, waits for the first answer.
async fn show_page(ui: &Arc<Ui>, page: &UiPage) -> Response<Body> {
    wait_for_answers(ui, &page.questions()).await;
    let text = render(page, &ui.memory(), &ui.about, now());
    html(ui, 200, &text)
}

/// Starts the queries that are due, and waits for those that have no cached answer.
async fn wait_for_answers(ui: &Arc<Ui>, questions: &[PageQuery]) {
    let mut news = ui.news.subscribe();
    ui.look(questions);
    let known = async {
        while ui.memory().is_wanting(questions) && news.changed().await.is_ok() {
            ui.look(questions);
        }
    };
    let _ = timeout(PATIENCE, known).await;
}

/// Redirects to the page of a name or a GitHub URL.
async fn find_page(ui: &Arc<Ui>, text: &str) -> Response<Body> {
    if text.contains("://") {
        wait_for_answers(ui, &go::QUESTIONS).await;
    }
    let way = go::way(text, &ui.memory(), &ui.about.github);
    let (address, asked) = match way {
        Way::To(page) => return to(ui, &page.address()),
        Way::Wrong(why) => return html(ui, 404, &go::lost(&why, &ui.about)),
        Way::Ask(address, asked) => (address, asked),
    };
    let mut answers = Vec::new();
    for one in asked {
        match github(&one).await {
            Ok(Some(answer)) => answers.push(answer),
            Ok(None) => return html(ui, 404, &go::lost(&go::hidden(&address), &ui.about)),
            Err(failure) => return html(ui, 502, &go::lost(&failure.sentence(), &ui.about)),
        }
    }
    match go::jobs(&address, &answers).as_slice() {
        [] => html(ui, 404, &go::lost(&go::hidden(&address), &ui.about)),
        [(key, _)] => to(ui, &UiPage::Job(*key).address()),
        several => html(ui, 200, &go::choice(several, &ui.about)),
    }
}

/// Returns the costs as CSV.
async fn costs_csv(ui: &Arc<Ui>, fields: &Fields) -> Response<Body> {
    let page = UiPage::read("/costs", fields);
    let Some(UiPage::Costs(view)) = page else {
        return html(ui, 404, &frame::missing(&ui.about));
    };
    wait_for_answers(ui, &[PageQuery::Costs(view.clone())]).await;
    let told = ui.memory().costs(&view).map(csv);
    let headers = [("content-disposition", "attachment; filename=\"costs.csv\"")];
    match told {
        Some(text) => with(200, &headers, "text/csv; charset=utf-8", text),
        None => refused(502, "The stack has not answered. See the Costs page for the reason."),
    }
}

/// Shows the confirmation page of an order.
pub(super) async fn confirm_order(ui: &Arc<Ui>, order: &Order) -> Response<Body> {
    confirm_again(ui, order, &ConfirmForm::default(), None).await
}

async fn confirm_again(
    ui: &Arc<Ui>,
    order: &Order,
    given: &ConfirmForm,
    wrong: Option<&str>,
) -> Response<Body> {
    let plan = plan(ui, order).await;
    let token = ui.guard().token(order);
    let status = if wrong.is_some() { 422 } else { 200 };
    html(ui, status, &confirm::page(order, &plan, given, wrong, &token, &ui.about))
}

/// Submits an order and shows the result.
pub(super) async fn submit_order(ui: &Arc<Ui>, order: &Order, form: &Fields) -> Response<Body> {
    let text = |name| form.get(name).unwrap_or_default().to_owned();
    let given = ConfirmForm { reason: text("reason"), typed: text("typed"), length: text("for") };
    if let Err(wrong) = given.check(order) {
        return confirm_again(ui, order, &given, Some(&wrong)).await;
    }
    let outcome = match (given.request(order, ui.by.as_deref()), order) {
        (Some(request), _) => ui.ask(&request).await,
        (None, Order::Redrive { queue }) => ui.redrive(*queue).await,
        (None, _) => return html(ui, 404, &frame::missing(&ui.about)),
    };
    ui.memory().expire(now());
    match outcome.and_then(|answer| done::of(order, answer, now())) {
        Ok(OrderResult::At(page, sentences)) => {
            let address = page.address();
            ui.memory().tell(address.clone(), sentences, now());
            to(ui, &address)
        }
        Ok(OrderResult::Said(said)) => html(ui, 200, &done::page(order, &said, &ui.about)),
        Err(failure) => html(ui, 409, &confirm::refused(order, &failure, &ui.about)),
    }
}

/// Returns what an order would do, from its dry run.
async fn plan(ui: &Arc<Ui>, order: &Order) -> Result<OrderPlan, Failure> {
    let found = match order.lookup() {
        Some(lookup) => Some(ui.find(&lookup.question()).await?),
        None => None,
    };
    let would = match order.dry_run(ui.by.as_deref()) {
        Some(request) => Some(ui.ask(&request).await?),
        None => None,
    };
    OrderPlan::read(order, found, would)
}

/// Gives the browser its cookie. No other page learns the address with the secret.
pub(super) fn entered(cookie: &str, root: &str) -> Response<Body> {
    let headers = [("set-cookie", cookie), ("referrer-policy", "no-referrer")];
    with(200, &headers, HTML, frame::entered(root))
}

/// Refuses a request. The answer does not contain the path of the pages: it may go to a different
/// user of the machine.
pub(super) fn refused(status: u16, why: &str) -> Response<Body> {
    with(status, &[], HTML, frame::bare(why))
}

fn to(ui: &Ui, address: &str) -> Response<Body> {
    let address = format!("{}{address}", ui.guard().root());
    with(303, &[("location", &address)], "text/plain; charset=utf-8", String::new())
}

fn html(ui: &Ui, status: u16, text: &str) -> Response<Body> {
    let text = frame::below(ui.guard().root(), text);
    with(status, &[], HTML, text)
}

/// Serves a file. It never changes, because a changed file has a different address.
fn file(asset: &Asset) -> Response<Body> {
    let headers = [("cache-control", "private, max-age=31536000, immutable")];
    with(200, &headers, asset.kind, asset.text.to_owned())
}
