//! The GitHub App.

use muster_api::answers::{
    ShownApp, ShownDelivery, ShownGithub, ShownHook, ShownInstallation, TestedDelivery, TestedHook,
};
use muster_domain::app::Repositories;
use muster_domain::ids::AppName;
use muster_domain::time::Time;

use super::told;
use crate::app::Owner;
use crate::page::{Screen, TextPage};
use crate::table::{Cell, Column, DataTable, Text, TextStyle};
use crate::words::{count, minute};

/// GitHub's code was sent to the stack, but its answer was lost.
pub const LOST_CODE: &str = "GitHub may have created the App, but its key did not arrive. Check with: muster github. If it is not there: open the App's \
     settings at GitHub, note its id, generate a private key, and run: muster github connect --app-id ID --key FILE";

/// Returns an App's name for people.
#[must_use]
pub fn named(app: &ShownApp) -> String {
    let of = app.owner.as_ref().map(|owner| format!(" of {owner}"));
    format!("{} ({}){}", app.slug, app.id, of.unwrap_or_default())
}

/// Renders the answer to `github`.
#[must_use]
pub fn page(answer: &ShownGithub, screen: Screen) -> String {
    let mut page = TextPage::new(screen);
    match &answer.app {
        Some(app) => {
            let (mark, look) = match (answer.lacks.is_empty(), answer.unknown.is_empty()) {
                (true, true) => ("✓", TextStyle::Good),
                (false, _) => ("✗", TextStyle::Bad),
                (true, false) => ("?", TextStyle::Warning),
            };
            page.line([
                Text::new("GitHub App ", TextStyle::Strong),
                Text::new(mark, look),
                Text::from(format!(" {}  {}", named(app), app.html_url)),
            ]);
            webhook(&mut page, answer);
        }
        None if answer.name != AppName::MAIN => {
            let none = format!("There is no App {} yet.", answer.name);
            let make = format!(" Create it: muster github --app {} create", answer.name);
            page.line([Text::new(&none, TextStyle::Strong), Text::from(make)]);
        }
        None => page.line([Text::new("There is no GitHub App yet.", TextStyle::Strong)]),
    }
    for other in &answer.other_apps {
        page.line([
            Text::new("Other App  ", TextStyle::Strong),
            Text::from(format!("{other}: muster github --app {other}")),
        ]);
    }
    if !answer.installations.is_empty() {
        page.gap();
        page.table(&installations(answer));
    }
    let rows: Vec<(Text, Text)> = wrongs(answer);
    if !rows.is_empty() {
        page.gap();
        page.marked(rows);
    }
    page.into_text()
}

/// Renders the part of the answer about the webhook.
#[must_use]
pub fn hook(answer: &ShownGithub, screen: Screen) -> String {
    let mut page = TextPage::new(screen);
    webhook(&mut page, answer);
    page.into_text()
}

fn webhook(page: &mut TextPage, answer: &ShownGithub) {
    let heading = Text::new("Webhook    ", TextStyle::Strong);
    let (is_ours, said) = hooked(answer);
    let (mark, set) = match is_ours {
        Some(true) => (Text::new("✓", TextStyle::Good), ""),
        Some(false) => (Text::new("✗", TextStyle::Bad), ": muster github hook set"),
        None => (Text::new("?", TextStyle::Warning), ""),
    };
    page.line([heading, mark, Text::from(format!(" {said}{set}"))]);
    if let Some((is_well, said)) = delivered(&answer.deliveries) {
        let mark = if is_well {
            Text::new("✓", TextStyle::Good)
        } else {
            Text::new("✗", TextStyle::Bad)
        };
        let heading = Text::new("Deliveries ", TextStyle::Strong);
        page.line([heading, mark, Text::from(format!(" {said}"))]);
    }
}

/// Summarizes the responses to GitHub's last deliveries. The newest one counts: earlier failures
/// may have been fixed since, such as setup's first ping, which GitHub sends before it has the
/// secret. `None` without deliveries.
fn delivered(all: &[ShownDelivery]) -> Option<(bool, String)> {
    let newest = all.first()?;
    let when = newest.at.map_or_else(|| "some time ago".to_owned(), minute);
    let is_well = |one: &&ShownDelivery| one.status.is_some_and(|status| status < 400);
    let (well, all) = (all.iter().filter(is_well).count(), all.len());
    let how = newest.status.map_or("no connection".to_owned(), |status| status.to_string());
    let event = &newest.event;
    let text = format!("{well} of the last {all} accepted, the newest {when}: {event}, {how}");
    Some((is_well(&newest), text))
}

/// Returns whether GitHub sends events to this stack, if that is known, and the address that it
/// sends to.
#[must_use]
pub fn hooked(answer: &ShownGithub) -> (Option<bool>, String) {
    let own = answer.webhook_url.as_deref().unwrap_or("an address that the stack does not know");
    match &answer.hook {
        Some(ShownHook { url, ours: true }) => (Some(true), url.clone()),
        Some(ShownHook { url, ours: false }) if url.is_empty() => {
            (Some(false), "it has no address".to_owned())
        }
        Some(ShownHook { url, ours: false }) => (Some(false), format!("{url} is not this stack")),
        None => (None, format!("unknown; it should be {own}")),
    }
}

const INSTALLATIONS: [Column; 4] = [
    Column::name("Installed at"),
    Column::short("Repositories"),
    Column::text("Note"),
    Column::text("Settings").from(100),
];

/// Returns the table of the App's installations.
pub(crate) fn installations(answer: &ShownGithub) -> DataTable {
    DataTable::new(INSTALLATIONS, answer.installations.iter().map(row))
}

/// Returns the table of the last deliveries.
pub(crate) fn deliveries(answer: &ShownGithub, now: Time) -> DataTable {
    let row = |one: &ShownDelivery| {
        let (status, style) = match one.status {
            Some(status @ ..400) => (status.to_string(), TextStyle::Good),
            Some(status) => (status.to_string(), TextStyle::Bad),
            None => ("no connection".to_owned(), TextStyle::Bad),
        };
        let status = Cell::state(Text::new(status, style));
        vec![Cell::from(&one.event), Cell::time(one.at, now), status]
    };
    let columns = [Column::text("Event"), Column::short("Sent"), Column::short("Answer")];
    DataTable::new(columns, answer.deliveries.iter().map(row))
}

/// Returns which repositories the App can access.
#[must_use]
pub const fn which(repositories: Repositories) -> &'static str {
    match repositories {
        Repositories::All => "all",
        Repositories::Selected => "selected",
    }
}

fn row(one: &ShownInstallation) -> Vec<Text> {
    let note = one.suspended_at.map(|at| format!("suspended since {}", minute(at)));
    vec![
        Text::new(&one.account, TextStyle::Strong),
        Text::from(which(one.repositories)),
        note.map_or_else(|| Text::from(""), |note| Text::new(note, TextStyle::Bad)),
        Text::from(&one.html_url),
    ]
}

/// How to create or connect an App.
pub const WAYS: &str = "muster github create creates one; muster github link asks a different owner to do it; muster github connect uses \
     an existing one";

fn wrongs(answer: &ShownGithub) -> Vec<(Text, Text)> {
    let row = |look: TextStyle, said: &String| (Text::new("!", look), Text::from(said));
    if answer.app.is_none() && answer.lacks.is_empty() && answer.unknown.is_empty() {
        return match answer.name {
            AppName::MAIN => vec![(Text::new("→", TextStyle::Dim), Text::from(WAYS))],
            _ => Vec::new(),
        };
    }
    let lacks = answer.lacks.iter().map(|lack| row(TextStyle::Bad, lack));
    lacks.chain(answer.unknown.iter().map(|why| row(TextStyle::Warning, why))).collect()
}

/// Returns how to reach the page. Its address contains a secret, so it is printed only if the user
/// has to paste it.
#[must_use]
pub fn invitation(owner: &Owner, address: &str, port: u16, is_open: bool) -> String {
    let mut text = if is_open {
        "Press the button on the page that opens in your browser. If no page opens, stop with Ctrl-C and add --no-browser: then the \
         address is printed."
            .to_owned()
    } else {
        format!(
            "Open this in a browser on this machine: {address}\n\
             From another machine, connect through: ssh -L {port}:127.0.0.1:{port} …"
        )
    };
    if let Owner::Organization(name) = owner {
        let name = name.as_str();
        let link = format!("muster github link --org {name}");
        text.push_str(&format!(
            "\nGitHub shows 404 to all but the owners of {name}. To ask one of them: {link}"
        ));
    }
    text
}

/// Returns what to do without a browser on this machine.
#[must_use]
pub fn other_ways(link: &str) -> String {
    format!(
        "If GitHub's answer cannot be loaded there, paste its address (http://127.0.0.1…/created?code=…) here.\n\
         Or open GitHub's form, create the App, generate a private key, and type the App's ID here:\n{link}"
    )
}

/// Returns the instructions for an owner who is a different person.
#[must_use]
pub fn letter(owner: &Owner, link: &str) -> String {
    let who = match owner {
        Owner::Organization(name) => format!("an owner of {}", name.as_str()),
        Owner::Person => "the owner of the repositories".to_owned(),
    };
    format!(
        "For {who}:\n\
         \n\
         1. Open this address and press \"Create GitHub App\"; the form is filled in.\n   \
            {link}\n\
         2. On the page that follows, note the App ID, and press \"Generate a private key\".\n\
         3. \"Install App\" in its settings, on the repositories that Muster should serve.\n\
         4. Send me the ID, and the key over a channel that is safe for passwords.\n\
         \n\
         Then: muster github connect --app-id ID --key FILE\n"
    )
}

/// Returns where to install the App.
#[must_use]
pub fn to_install(address: &str) -> String {
    format!("Install it on the repositories that it should serve (q stops waiting): {address}")
}

/// Returns where the App is installed.
#[must_use]
pub fn installed(all: &[ShownInstallation]) -> String {
    let one = |one: &ShownInstallation| match one.repositories {
        Repositories::All => format!("{} (all repositories)", one.account),
        Repositories::Selected => format!("{} (selected repositories)", one.account),
    };
    const SHOWN: usize = 5;
    let mut names: Vec<String> = all.iter().take(SHOWN).map(one).collect();
    if let Some(rest) = all.len().checked_sub(SHOWN).filter(|rest| *rest > 0) {
        names.push(count(rest, "other"));
    }
    format!("✓ installed at {}", names.join(", "))
}

/// Returns the result of a redelivery, and whether it succeeded.
#[must_use]
pub fn tested(answer: &TestedHook) -> (bool, String) {
    match (&answer.wrong, &answer.tested) {
        // One command can make the change that the message describes for GitHub's pages.
        (Some(wrong), Some(TestedDelivery { status: None | Some(401 | 403 | 404 | 415), .. })) => {
            (false, format!("{}, or: muster github hook set", told(wrong)))
        }
        (Some(wrong), _) => (false, told(wrong)),
        (None, Some(TestedDelivery { event, status: Some(status), .. })) => (
            true,
            format!(
                "GitHub redelivered its {event:?}, and the webhook accepted the signature: {status}"
            ),
        ),
        (None, _) => (false, "GitHub did not redeliver an event.".to_owned()),
    }
}
