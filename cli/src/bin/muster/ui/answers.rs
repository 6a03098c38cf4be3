//! Answers to a browser.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::Response;
use muster_cli::failure::Failure;
use muster_cli::ui::assets::{self, Asset, HEADERS};
use muster_cli::ui::confirm::{self, Given};
use muster_cli::ui::done::{self, Done};
use muster_cli::ui::door::Knock;
use muster_cli::ui::fields::Fields;
use muster_cli::ui::go::{self, Way};
use muster_cli::ui::memory::Question;
use muster_cli::ui::order::Order;
use muster_cli::ui::page::Page;
use muster_cli::ui::plan::Plan;
use muster_cli::ui::{frame, render};
use muster_cli::views::costs::csv;
use tokio::time::timeout;

use super::{Ui, live};
use crate::terminal::{github, now};

const HTML: &str = "text/html; charset=utf-8";
/// How long a page waits for an answer that it cannot do without.
const PATIENCE: Duration = Duration::from_secs(8);

/// A page, a file or a stream.
pub(super) async fn looks(ui: &Arc<Ui>, knock: &Knock) -> Response<Body> {
    let fields = Fields::read(knock.query.as_bytes());
    if let Some(asset) = assets::at(&knock.path) {
        return file(asset);
    }
    match knock.path.as_str() {
        "/live" => live::stream(ui, &fields),
        "/costs.csv" => tells(ui, &fields).await,
        "/go" => goes(ui, fields.get("name").unwrap_or_default()).await,
        "/refresh" => {
            ui.memory().expire(now());
            to(ui, &frame::target(&fields).address())
        }
        path => match path.strip_prefix("/confirm/") {
            Some(_) if ui.about.is_read_only => html(ui, 404, &frame::missing(&ui.about)),
            Some(action) => match Order::read(action, &fields) {
                Some(order) => asks(ui, &order).await,
                None => html(ui, 404, &confirm::unread(action, &ui.about)),
            },
            None => match Page::read(path, &fields) {
                Some(page) => shows(ui, &page).await,
                None => html(ui, 404, &frame::missing(&ui.about)),
            },
        },
    }
}

/// A page from memory; where nothing is known yet, of the first answer.
async fn shows(ui: &Arc<Ui>, page: &Page) -> Response<Body> {
    knows(ui, &page.questions()).await;
    let text = render(page, &ui.memory(), &ui.about, now());
    html(ui, 200, &text)
}

/// Asks what is due, and waits for what there is no answer to at all.
async fn knows(ui: &Arc<Ui>, questions: &[Question]) {
    let mut news = ui.news.subscribe();
    ui.look(questions);
    let known = async {
        while ui.memory().is_wanting(questions) && news.changed().await.is_ok() {
            ui.look(questions);
        }
    };
    let _ = timeout(PATIENCE, known).await;
}

/// The page of what somebody has: a name, or an address at GitHub.
async fn goes(ui: &Arc<Ui>, text: &str) -> Response<Body> {
    if text.contains("://") {
        knows(ui, &go::QUESTIONS).await;
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
        [(key, _)] => to(ui, &Page::Job(*key).address()),
        several => html(ui, 200, &go::choice(several, &ui.about)),
    }
}

/// Costs for a spreadsheet.
async fn tells(ui: &Arc<Ui>, fields: &Fields) -> Response<Body> {
    let page = Page::read("/costs", fields);
    let Some(Page::Costs { days, by }) = page else {
        return html(ui, 404, &frame::missing(&ui.about));
    };
    knows(ui, &[Question::Costs(days, by)]).await;
    let told = ui.memory().costs(days, by).map(csv);
    let headers = [("content-disposition", "attachment; filename=\"costs.csv\"")];
    match told {
        Some(text) => with(200, &headers, "text/csv; charset=utf-8", text),
        None => refused(502, "The stack has not answered. The page Costs says why."),
    }
}

/// An order before it is given.
pub(super) async fn asks(ui: &Arc<Ui>, order: &Order) -> Response<Body> {
    asks_again(ui, order, &Given::default(), None).await
}

async fn asks_again(
    ui: &Arc<Ui>,
    order: &Order,
    given: &Given,
    wrong: Option<&str>,
) -> Response<Body> {
    let plan = plan(ui, order).await;
    let token = ui.door().token(order);
    let status = if wrong.is_some() { 422 } else { 200 };
    html(ui, status, &confirm::page(order, &plan, given, wrong, &token, &ui.about))
}

/// Gives an order, and shows what came of it.
pub(super) async fn orders(ui: &Arc<Ui>, order: &Order, form: &Fields) -> Response<Body> {
    let text = |name| form.get(name).unwrap_or_default().to_owned();
    let given = Given { reason: text("reason"), typed: text("typed"), length: text("for") };
    if let Err(wrong) = given.check(order) {
        return asks_again(ui, order, &given, Some(&wrong)).await;
    }
    let outcome = match (given.request(order, ui.by.as_deref()), order) {
        (Some(request), _) => ui.ask(&request).await,
        (None, Order::Redrive { queue }) => ui.redrive(*queue).await,
        (None, _) => return html(ui, 404, &frame::missing(&ui.about)),
    };
    ui.memory().expire(now());
    match outcome.and_then(|answer| done::of(order, answer, now())) {
        Ok(Done::At(page)) => to(ui, &page.address()),
        Ok(Done::Said(said)) => html(ui, 200, &done::page(order, &said, &ui.about)),
        Err(failure) => html(ui, 409, &confirm::refused(order, &failure, &ui.about)),
    }
}

/// What an order would do.
async fn plan(ui: &Arc<Ui>, order: &Order) -> Result<Plan, Failure> {
    let dry_run = order.request("a dry run", ui.by.as_deref(), true);
    let first = match &order.shown_first() {
        Some(question) => Some(ui.find(question).await?),
        None => None,
    };
    let would = match dry_run {
        Some(request) => Some(ui.ask(&request).await?),
        None => None,
    };
    Plan::read(order, first, would)
}

/// The browser got in. No other page learns the address with its secret.
pub(super) fn entered(cookie: &str, root: &str) -> Response<Body> {
    let headers = [("set-cookie", cookie), ("referrer-policy", "no-referrer")];
    with(200, &headers, HTML, frame::entered(root))
}

/// A refusal does not show the path of the pages: it may go to another user of the machine.
pub(super) fn refused(status: u16, why: &str) -> Response<Body> {
    with(status, &[], HTML, frame::bare(why))
}

fn to(ui: &Ui, address: &str) -> Response<Body> {
    let address = format!("{}{address}", ui.door().root());
    with(303, &[("location", &address)], "text/plain; charset=utf-8", String::new())
}

fn html(ui: &Ui, status: u16, text: &str) -> Response<Body> {
    let text = frame::below(ui.door().root(), text);
    with(status, &[], HTML, text)
}

/// A file never changes: its address would be another.
fn file(asset: &Asset) -> Response<Body> {
    let headers = [("cache-control", "private, max-age=31536000, immutable")];
    with(200, &headers, asset.kind, asset.text.to_owned())
}

pub(super) fn with(
    status: u16,
    headers: &[(&str, &str)],
    kind: &str,
    body: impl Into<Body>,
) -> Response<Body> {
    let mut response = Response::builder().status(status).header("content-type", kind);
    let is_own = |name: &str| headers.iter().any(|(own, _)| *own == name);
    let usual = HEADERS.into_iter().filter(|(name, _)| !is_own(name));
    for (name, value) in headers.iter().copied().chain(usual) {
        response = response.header(name, value);
    }
    response.body(body.into()).unwrap_or_default()
}
