//! Creation of the App at GitHub: links to its pre-filled form, and the code that GitHub returns
//! for a manifest.

use serde::{Deserialize, Serialize};

use super::{ACTIONS, JOBS, RUNNERS_OF_ORGANIZATIONS, RUNNERS_OF_REPOSITORIES};
use crate::hash::fnv1a;

/// Maximum length of an App's name, in characters.
/// Source:
/// docs.github.com/en/apps/creating-github-apps/registering-a-github-app/registering-a-github-app
const MAX_NAME: usize = 34;
/// Maximum length of an accepted code; GitHub's have forty characters.
const MAX_CODE: usize = 200;

/// The homepage of an App, visible to everyone who can see the App. The URL of the stack's API is
/// only for GitHub and machines.
pub const HOMEPAGE: &str = "https://github.com/muster-runners/muster";

/// Links to GitHub's form for a new App, pre-filled. The webhook's secret must be entered manually.
/// Source:
/// docs.github.com/en/apps/sharing-github-apps/registering-a-github-app-using-url-parameters
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewAppLinks {
    /// For an organization, whose name replaces `ORG`.
    pub organization: String,
    /// For a user, with runners of single repositories.
    pub personal: String,
}

impl NewAppLinks {
    /// Creates the links for the stack whose webhook has this URL.
    #[must_use]
    pub fn new(stack: &str, webhook: &str) -> Self {
        let name = app_name(stack, &unique(webhook));
        let link = |place: &str, runners: &str| {
            format!(
                "https://github.com/{place}settings/apps/new?name={name}&url={HOMEPAGE}&public=false\
                 &webhook_active=true&webhook_url={webhook}&events%5B%5D={JOBS}&{ACTIONS}=write\
                 &{runners}=write"
            )
        };
        Self {
            organization: link("organizations/ORG/", RUNNERS_OF_ORGANIZATIONS),
            personal: link("", RUNNERS_OF_REPOSITORIES),
        }
    }
}

/// Returns the name of a stack's App, cut to GitHub's maximum length.
#[must_use]
pub fn app_name(stack: &str, of: &str) -> String {
    let name: String = format!("{stack}-{of}").chars().take(MAX_NAME).collect();
    name.trim_end_matches('-').to_owned()
}

/// Returns a suffix that makes an App's name unique at GitHub without revealing the URL.
#[must_use]
pub fn unique(webhook: &str) -> String {
    format!("{:08x}", fnv1a(webhook.as_bytes()) & 0xffff_ffff)
}

/// The error for a text that cannot be a code from GitHub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoCode;

/// Checks whether a text can be a manifest's code. It is used in a URL path unchanged.
///
/// # Errors
/// If it cannot.
pub fn check_code(code: &str) -> Result<(), NoCode> {
    let is_plain = |one: char| one.is_ascii_alphanumeric() || one == '-' || one == '_';
    let fits = (1..=MAX_CODE).contains(&code.len()) && code.chars().all(is_plain);
    if fits { Ok(()) } else { Err(NoCode) }
}

/// Returns a hash that identifies a code without revealing it. It is stored with the App that the
/// code created, so that a repeated request is recognized.
#[must_use]
pub fn code_mark(code: &str) -> String {
    format!("{:016x}", fnv1a(code.as_bytes()))
}

/// Returns the page where an App's owner changes it, from its page `https://github.com/apps/SLUG`
/// or the equivalent on a different host.
#[must_use]
pub fn settings_page(html_url: &str, organization: Option<&str>) -> String {
    // GitHub Enterprise Server uses the second form.
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
        // The App's public name and homepage must not reveal the URL.
        assert!(!unique(webhook).contains("a1b2c3d4e5"));
        assert_eq!(
            organization.replace(&unique(webhook), "NAME"),
            "https://github.com/organizations/ORG/settings/apps/new?name=muster-NAME\
             &url=https://github.com/muster-runners/muster&public=false\
             &webhook_active=true\
             &webhook_url=https://a1b2c3d4e5.execute-api.us-east-1.amazonaws.com/webhook\
             &events%5B%5D=workflow_job&actions=write&organization_self_hosted_runners=write"
        );
        assert!(personal.starts_with("https://github.com/settings/apps/new?name=muster-"));
        assert!(personal.ends_with("&actions=write&administration=write"), "{personal}");
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
