//! How an App is made at GitHub: the links that fill its form in, and the code that its manifest is
//! answered with.

use serde::{Deserialize, Serialize};

use super::{ACTIONS, JOBS, RUNNERS_OF_ORGANIZATIONS, RUNNERS_OF_REPOSITORIES};
use crate::hash::fnv1a;

/// The longest name of an App, characters.
/// Source: docs.github.com/en/apps/creating-github-apps/registering-a-github-app/registering-a-github-app
const MAX_NAME: usize = 34;
/// The longest code that is taken; GitHub's have forty characters.
const MAX_CODE: usize = 200;

/// The homepage of an App, which everyone who sees the App sees. The address of the stack's API is for
/// GitHub and machines.
pub const HOMEPAGE: &str = "https://github.com/muster-runners/muster";

/// GitHub's form for a new App, filled in. The webhook's secret has to be entered by hand.
/// Source: docs.github.com/en/apps/sharing-github-apps/registering-a-github-app-using-url-parameters
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewAppLinks {
    /// Of an organization, whose name goes in for `ORG`.
    pub organization: String,
    /// Of a person, for runners of single repositories.
    pub personal: String,
}

impl NewAppLinks {
    /// The links of the stack whose webhook has this address.
    #[must_use]
    pub fn new(stack: &str, webhook: &str) -> Self {
        let name = app_name(stack, &unique(webhook));
        let link = |place: &str, runners: &str| {
            format!(
                "https://github.com/{place}settings/apps/new?name={name}&url={HOMEPAGE}&public=false\
                 &webhook_active=true&webhook_url={webhook}&events%5B%5D={JOBS}&{ACTIONS}=read\
                 &{runners}=write"
            )
        };
        Self {
            organization: link("organizations/ORG/", RUNNERS_OF_ORGANIZATIONS),
            personal: link("", RUNNERS_OF_REPOSITORIES),
        }
    }
}

/// The name of a stack's App, no longer than GitHub accepts.
#[must_use]
pub fn app_name(stack: &str, of: &str) -> String {
    let name: String = format!("{stack}-{of}").chars().take(MAX_NAME).collect();
    name.trim_end_matches('-').to_owned()
}

/// Makes an App's name unique at GitHub, without the address that it is made from.
#[must_use]
pub fn unique(webhook: &str) -> String {
    format!("{:08x}", fnv1a(webhook.as_bytes()) & 0xffff_ffff)
}

/// A text that cannot be a code of GitHub's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoCode;

/// Whether a manifest's code can be one. It goes into a path as it came.
///
/// # Errors
/// When it cannot.
pub fn check_code(code: &str) -> Result<(), NoCode> {
    let is_plain = |one: char| one.is_ascii_alphanumeric() || one == '-' || one == '_';
    let fits = (1..=MAX_CODE).contains(&code.len()) && code.chars().all(is_plain);
    if fits { Ok(()) } else { Err(NoCode) }
}

/// What tells a code from others without being it: kept beside the App that it made, so that a
/// repeated request is known for what it is.
#[must_use]
pub fn code_mark(code: &str) -> String {
    format!("{:016x}", fnv1a(code.as_bytes()))
}

/// Where an App's owner changes it: from its page `https://github.com/apps/SLUG`, or one like it on
/// another host.
#[must_use]
pub fn settings_page(html_url: &str, organization: Option<&str>) -> String {
    // GitHub Enterprise Server has the second one.
    let split = ["/apps/", "/github-apps/"].into_iter().find_map(|at| html_url.rsplit_once(at));
    let Some((host, slug)) = split else { return html_url.to_owned() };
    match organization {
        Some(organization) => format!("{host}/organizations/{organization}/settings/apps/{slug}"),
        None => format!("{host}/settings/apps/{slug}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_links_fill_the_form_in() {
        let webhook = "https://a1b2c3d4e5.execute-api.us-east-1.amazonaws.com/webhook";
        let NewAppLinks { organization, personal } = NewAppLinks::new("muster", webhook);
        // Whoever sees the App must not learn the address from its name or homepage.
        assert!(!unique(webhook).contains("a1b2c3d4e5"));
        assert_eq!(
            organization.replace(&unique(webhook), "NAME"),
            "https://github.com/organizations/ORG/settings/apps/new?name=muster-NAME\
             &url=https://github.com/muster-runners/muster&public=false\
             &webhook_active=true\
             &webhook_url=https://a1b2c3d4e5.execute-api.us-east-1.amazonaws.com/webhook\
             &events%5B%5D=workflow_job&actions=read&organization_self_hosted_runners=write"
        );
        assert!(personal.starts_with("https://github.com/settings/apps/new?name=muster-"));
        assert!(personal.ends_with("&actions=read&administration=write"), "{personal}");
        let long = NewAppLinks::new(&"s".repeat(60), webhook).personal;
        assert!(long.contains(&format!("?name={}&url=", "s".repeat(34))), "{long}");
    }

    #[test]
    fn a_code_needs_no_encoding() {
        assert_eq!(check_code("a180b1a3d263c81bc6441d7b990bae27d4c10679"), Ok(()));
        for wrong in ["", "a/b", "..", "a b", "a%2Fb", "a?b", &"a".repeat(201)] {
            assert_eq!(check_code(wrong), Err(NoCode), "{wrong}");
        }
        assert_ne!(code_mark("one"), code_mark("two"));
        assert!(!code_mark("a180b1a3").contains("a180b1a3"));
    }

    #[test]
    fn an_app_is_changed_in_its_owners_settings() {
        let page = "https://github.com/apps/muster-acme";
        let of_acme = settings_page(page, Some("acme"));
        assert_eq!(of_acme, "https://github.com/organizations/acme/settings/apps/muster-acme");
        assert_eq!(settings_page(page, None), "https://github.com/settings/apps/muster-acme");
        let server = settings_page("https://ghes.acme.io/github-apps/muster", Some("acme"));
        assert_eq!(server, "https://ghes.acme.io/organizations/acme/settings/apps/muster");
        assert_eq!(settings_page("", None), "");
    }
}
