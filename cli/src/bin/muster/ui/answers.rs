//! What a browser is answered.

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

/// How long a page waits for an answer that it cannot do without.
const PATIENCE: Duration = Duration::from_secs(8);

/// Somebody who looks.
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
            to(&frame::target(&fields).address())
        }
        path => match path.strip_prefix("/confirm/") {
            Some(_) if ui.about.is_read_only => refused(404, "There is nothing here."),
            Some(action) => match Order::read(action, &fields) {
                Some(order) => asks(ui, &order).await,
                None => html(404, confirm::unread(action, &ui.about)),
            },
            None => match Page::read(path, &fields) {
                Some(page) => shows(ui, &page).await,
                None => refused(404, "There is nothing here."),
            },
        },
    }
}

/// A page from memory; where nothing is known yet, of the first answer.
async fn shows(ui: &Arc<Ui>, page: &Page) -> Response<Body> {
    knows(ui, &page.questions()).await;
    html(200, render(page, &ui.memory(), &ui.about, now()))
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
    let way = go::way(text, &ui.memory());
    let (address, asked) = match way {
        Way::To(page) => return to(&page.address()),
        Way::Wrong(why) => return html(404, go::lost(&why, &ui.about)),
        Way::Ask(address, asked) => (address, asked),
    };
    let mut answers = Vec::new();
    for one in asked {
        match github(&one).await {
            Ok(Some(answer)) => answers.push(answer),
            Ok(None) => return html(404, go::lost(&go::hidden(&address), &ui.about)),
            Err(failure) => return html(502, go::lost(&failure.sentence(), &ui.about)),
        }
    }
    match go::jobs(&address, &answers).as_slice() {
        [] => html(404, go::lost(&go::hidden(&address), &ui.about)),
        [(key, _)] => to(&Page::Job(*key).address()),
        several => html(200, go::choice(several, &ui.about)),
    }
}

/// Costs for a spreadsheet.
async fn tells(ui: &Arc<Ui>, fields: &Fields) -> Response<Body> {
    let page = Page::read("/costs", fields);
    let Some(Page::Costs { days, by }) = page else {
        return refused(404, "There is nothing here.");
    };
    knows(ui, &[Question::Costs(days, by)]).await;
    let told = ui.memory().costs(days, by).map(csv);
    let headers = [("content-disposition", "attachment; filename=\"costs.csv\"")];
    match told {
        Some(text) => with(200, &headers, "text/csv; charset=utf-8", text),
        None => refused(502, "The stack has not answered. The page of costs says why."),
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
    html(status, confirm::page(order, &plan, given, wrong, &token, &ui.about))
}

/// Gives an order, and shows what came of it.
pub(super) async fn orders(ui: &Arc<Ui>, order: &Order, form: &Fields) -> Response<Body> {
    let text = |name| form.get(name).unwrap_or_default().to_owned();
    let given = Given { reason: text("reason"), typed: text("typed") };
    if let Err(wrong) = given.check(order) {
        return asks_again(ui, order, &given, Some(&wrong)).await;
    }
    let outcome = match (order.request(given.reason.trim(), ui.by.as_deref(), false), order) {
        (Some(request), _) => ui.ask(&request).await,
        (None, Order::Redrive { queue }) => ui.redrive(*queue).await,
        (None, _) => return refused(404, "There is nothing here."),
    };
    ui.memory().expire(now());
    match outcome.and_then(|answer| done::of(order, answer, now())) {
        Ok(Done::At(page)) => to(&page.address()),
        Ok(Done::Said(said)) => html(200, done::page(order, &said, &ui.about)),
        Err(failure) => html(409, confirm::refused(order, &failure, &ui.about)),
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

/// The address with its token is told to nobody.
pub(super) fn entered(cookie: &str) -> Response<Body> {
    let headers = [("location", "/"), ("set-cookie", cookie), ("referrer-policy", "no-referrer")];
    with(303, &headers, "text/plain; charset=utf-8", String::new())
}

pub(super) fn refused(status: u16, why: &str) -> Response<Body> {
    html(status, frame::bare(why))
}

fn to(address: &str) -> Response<Body> {
    with(303, &[("location", address)], "text/plain; charset=utf-8", String::new())
}

fn html(status: u16, text: String) -> Response<Body> {
    with(status, &[], "text/html; charset=utf-8", text)
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
