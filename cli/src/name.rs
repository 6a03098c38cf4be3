//! Parses the names and URLs by which people refer to jobs and instances.

use muster_domain::ids::JobKey;

/// A parsed name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    /// Muster's key of a job.
    Job(JobKey),
    /// The URL of a page on GitHub.
    Address(GitHubUrl),
    /// The name of an instance, a machine or a runner.
    Instance(String),
}

/// The URL of a job or a run on GitHub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitHubUrl {
    /// `github.com` or a server, in lower case, with its port if the URL has one.
    pub host: String,
    /// `owner/repo`
    pub repository: String,
    /// The run's number, if the URL contains it.
    pub run: Option<u64>,
    /// The job's number; `None` for a whole run.
    pub job: Option<u64>,
}

impl GitHubUrl {
    /// Checks that the URL is at the stack's GitHub. Credentials are sent to no other host, and another host's jobs are
    /// not this stack's.
    ///
    /// # Errors
    /// Returns the message for the operator.
    pub fn is_at(&self, github: &str) -> Result<(), String> {
        if self.host.eq_ignore_ascii_case(github) {
            return Ok(());
        }
        let Self { host, repository, .. } = self;
        Err(format!(
            "The address is at {host}, and this stack's GitHub is {github}: {repository} was not looked up."
        ))
    }

    /// Returns the address of a path in GitHub's API.
    /// Source: docs.github.com/en/enterprise-server/rest/overview/resources-in-the-rest-api
    #[must_use]
    pub fn api(&self, path: &str) -> String {
        let host = match self.host.as_str() {
            "github.com" => "api.github.com".to_owned(),
            tenant if tenant.ends_with(".ghe.com") => format!("api.{tenant}"),
            server => format!("{server}/api/v3"),
        };
        format!("https://{host}/repos/{}{path}", self.repository)
    }
}

/// Parses a name.
///
/// # Errors
/// Fails on a URL that is not a job's or a run's.
pub fn read(text: &str) -> Result<Name, String> {
    let text = text.trim();
    if let Some(rest) = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")) {
        return address(rest).map(Name::Address).ok_or_else(|| {
            format!(
                "{text} is not the address of a job or a run; example: \
                https://github.com/acme/app/actions/runs/9912/job/5511"
            )
        });
    }
    Ok(text.parse().map_or_else(|_| Name::Instance(text.to_owned()), Name::Job))
}

/// Parses `HOST/OWNER/REPO/actions/runs/RUN[/attempts/N][/job/JOB]`, or the older `HOST/OWNER/REPO/runs/JOB`.
fn address(rest: &str) -> Option<GitHubUrl> {
    let path = rest.split(['?', '#']).next()?;
    let (name, path) = path.split_once('/')?;
    let host = host(name)?;
    let mut parts = path.split('/').filter(|part| !part.is_empty());
    let repository = format!("{}/{}", plain(parts.next()?)?, plain(parts.next()?)?);
    let rest: Vec<&str> = parts.collect();
    let number = |text: &str| text.parse::<u64>().ok();
    let (run, job) = match rest.as_slice() {
        ["actions", "runs", run] | ["actions", "runs", run, "attempts", _] => (number(run), None),
        ["actions", "runs", run, "job" | "jobs", job]
        | ["actions", "runs", run, "attempts", _, "job" | "jobs", job] => {
            (number(run), Some(number(job)?))
        }
        ["runs", job] => (None, Some(number(job)?)),
        _ => return None,
    };
    (run.is_some() || job.is_some()).then_some(GitHubUrl { host, repository, run, job })
}

/// Parses a host as a browser shows it, with its port if there is one. A user part is rejected:
/// `https://github.com@evil.example/` is at evil.example.
fn host(text: &str) -> Option<String> {
    let (name, port) = text.split_once(':').map_or((text, None), |(name, port)| (name, Some(port)));
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"-.".contains(&b);
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    let is_host = !name.is_empty() && name.bytes().all(fits) && port.is_none_or(is_port);
    is_host.then(|| text.to_ascii_lowercase())
}

/// Accepts what GitHub allows in names of owners and repositories, which excludes anything that would change a path.
fn plain(text: &str) -> Option<&str> {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    (text.bytes().all(fits) && text != "." && text != "..").then_some(text)
}

/// Returns a runner's name without its final number: `small-l0-0-1` is the first runner of `small-l0-0`.
#[must_use]
pub fn of_runner(runner: &str) -> Option<&str> {
    let (instance, number) = runner.rsplit_once('-')?;
    (!number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())).then_some(instance)
}

#[cfg(test)]
mod tests {
    use muster_domain::ids::AppName;

    use super::*;

    #[test]
    fn every_name_is_what_it_is() {
        let page = |run, job| {
            let (host, repository) = ("github.com".to_owned(), "acme/site".to_owned());
            Name::Address(GitHubUrl { host, repository, run, job })
        };
        let site = "https://github.com/acme/site";
        for (text, name) in [
            (
                "7/5511".to_owned(),
                Name::Job(JobKey { app: AppName::MAIN, repository: 7, job: 5511 }),
            ),
            ("i-0a1d6dcfdb79386ac".to_owned(), Name::Instance("i-0a1d6dcfdb79386ac".to_owned())),
            (" small-l0-0 ".to_owned(), Name::Instance("small-l0-0".to_owned())),
            (format!("{site}/actions/runs/9912/job/5511"), page(Some(9912), Some(5511))),
            (
                format!("{site}/actions/runs/9912/job/5511?pr=7#step:3:1"),
                page(Some(9912), Some(5511)),
            ),
            (format!("{site}/actions/runs/9912/attempts/2/job/5511"), page(Some(9912), Some(5511))),
            (format!("{site}/actions/runs/9912/"), page(Some(9912), None)),
            (format!("{site}/actions/runs/9912/attempts/2"), page(Some(9912), None)),
            (format!("{site}/runs/5511"), page(None, Some(5511))),
        ] {
            assert_eq!(read(&text), Ok(name), "{text}");
        }
        for text in ["", "/pull/7", "/actions/runs/x", "/actions/runs/1/job/x", "/../../user"] {
            assert!(read(&format!("{site}{text}")).is_err(), "{text}");
        }
    }

    #[test]
    fn each_github_has_its_api() {
        let api = |host: &str| {
            let Ok(Name::Address(page)) = read(&format!("https://{host}/acme/site/runs/1")) else {
                panic!("not an address: {host}")
            };
            page.api("")
        };
        assert_eq!(api("github.com"), "https://api.github.com/repos/acme/site");
        assert_eq!(api("acme.ghe.com"), "https://api.acme.ghe.com/repos/acme/site");
        assert_eq!(api("git.acme.io"), "https://git.acme.io/api/v3/repos/acme/site");
    }

    #[test]
    fn a_runner_is_an_instances() {
        assert_eq!(of_runner("small-l0-0-1"), Some("small-l0-0"));
        for none in ["small", "i-0abc", "small-", "small-l0-x1"] {
            assert_eq!(of_runner(none), None, "{none}");
        }
    }

    #[test]
    fn an_address_is_at_its_own_github_only() {
        for (page, github, is_at) in [
            ("github.com", "github.com", true),
            ("GitHub.com", "github.com", true),
            ("github.com", "GitHub.com", true),
            ("github.com", "ghe.acme.io", false),
            ("ghe.acme.io:8443", "ghe.acme.io", false),
            ("ghe.acme.io", "acme.io", false),
        ] {
            let Ok(Name::Address(address)) = read(&format!("https://{page}/acme/site/runs/1"))
            else {
                panic!("not an address: {page}")
            };
            assert_eq!(address.is_at(github).is_ok(), is_at, "{page} {github}");
        }
        // The tenant's domain, not its name.
        let api = |host: &str| {
            let (host, repository) = (host.to_owned(), "a/b".to_owned());
            GitHubUrl { host, repository, run: None, job: None }.api("")
        };
        assert_eq!(api("evilghe.com"), "https://evilghe.com/api/v3/repos/a/b");
        for path in ["a b/c", "a/b%2F", ".", "..", "a/.."] {
            let text = format!("https://github.com/{path}/site/runs/1");
            assert!(read(&text).is_err(), "{path}");
        }
    }
}
