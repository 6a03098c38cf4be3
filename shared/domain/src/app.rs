//! The GitHub App as configured at GitHub: its events and permissions. A wrong setting causes no
//! error in any call: the events simply never arrive.

mod check;
mod findings;
mod key;
mod making;

use std::collections::BTreeMap;

use crate::ids::EntityKind;
use crate::pool::warm::WarmEvent;
use crate::pool::{Pool, RerunPolicy};

pub use self::check::{AppCheck, Lack};
pub use self::findings::{
    AppFacts, AppProblem, Findings, Hook, HookAnswer, Installation, OwnStack, Repositories,
    delivery_remedy, narrow_groups,
};
pub use self::key::{
    BAD_KEY, KeyProblem, NO_KEY, NOT_INSTALLED, is_before_github, put_command, secret_name,
};
pub use self::making::{
    HOMEPAGE, NewAppLinks, NoCode, app_name, check_code, code_mark, settings_page, unique,
};

/// GitHub's description of the App.
/// Source: docs.github.com/en/rest/apps/apps#get-the-authenticated-app
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AppSettings {
    /// Its ID.
    pub id: u64,
    /// Its name in URLs.
    pub slug: String,
    /// Its name.
    pub name: String,
    /// The login of the account that owns it, or `enterprises/` and the slug.
    pub owner: Option<String>,
    /// Its page at GitHub; empty if GitHub does not report it.
    pub html_url: String,
    /// The events that it is subscribed to.
    pub events: Vec<String>,
    /// Permission levels (`read`, `write` or `admin`) by permission name.
    pub permissions: BTreeMap<String, String>,
}

const JOBS: &str = "workflow_job";
const ACTIONS: &str = "actions";
const RUNNERS_OF_ORGANIZATIONS: &str = "organization_self_hosted_runners";
const RUNNERS_OF_REPOSITORIES: &str = "administration";

const NO_EVENTS: &str = "the App is not subscribed to the event \"Workflow job\", so GitHub sends no \
    job events: in the App's settings make the webhook active (General), and then choose \
    Permissions & events, Subscribe to events, Workflow job";
const NO_ACTIONS: &str = "the App lacks the repository permission \"Actions\" (read): GitHub offers no event \"Workflow job\" \
    without it, and waiting jobs cannot be looked up";
const NO_ORGANIZATION: &str =
    "the App lacks the organization permission \"Self-hosted runners\" (read and write)";
const NO_REPOSITORY: &str = "the App lacks the repository permission \"Administration\" (read and \
    write), which is required for runners of a repository";
const NO_RUNNERS: &str = "the App cannot register runners: it needs the organization permission \
    \"Self-hosted runners\" (read and write), or for runners of repositories the repository \
    permission \"Administration\" (read and write)";

impl AppSettings {
    /// Returns what it lacks to serve these pools.
    #[must_use]
    pub fn lacks(&self, pools: &[Pool]) -> Vec<Lack> {
        let registers = |kind| {
            let served = pools.iter().filter(|pool| !pool.is_removed());
            served.filter_map(|pool| pool.entity.as_ref()).any(|entity| entity.kind() == kind)
        };
        let organizations = self.may_write(RUNNERS_OF_ORGANIZATIONS);
        let repositories = self.may_write(RUNNERS_OF_REPOSITORIES);
        let rows = [
            (!self.events.iter().any(|event| event == JOBS), NO_EVENTS),
            (!self.permissions.contains_key(ACTIONS), NO_ACTIONS),
            (registers(EntityKind::Organization) && !organizations, NO_ORGANIZATION),
            (registers(EntityKind::Repository) && !repositories, NO_REPOSITORY),
            // If the job determines the entity, at least one of the two is required.
            (!organizations && !repositories, NO_RUNNERS),
        ];
        let check = |sentence| match sentence {
            NO_EVENTS => AppCheck::Event,
            _ => AppCheck::Permissions,
        };
        let lacking = rows.into_iter().filter(|(lacks, _)| *lacks);
        let lacking = lacking.map(|(_, sentence)| check(sentence).lacks(sentence));
        let reruns = self.lacks_to_rerun(pools);
        lacking.chain(self.lacks_to_warm(pools)).chain(reruns).collect()
    }

    /// Returns the permission to re-run jobs, if a pool re-runs interrupted ones.
    fn lacks_to_rerun(&self, pools: &[Pool]) -> Option<Lack> {
        let reads = self.permissions.contains_key(ACTIONS) && !self.may_write(ACTIONS);
        let reruns = |pool: &&Pool| pool.reruns() != RerunPolicy::Off && !pool.is_removed();
        let pool = pools.iter().find(reruns).filter(|_| reads)?;
        Some(AppCheck::Reruns.lacks(format!(
            "interrupted jobs of pool {} are not re-run, because the App can only read Actions: in the \
             App's settings choose Permissions & events, and set the repository permission \"Actions\" \
             to read and write; each account then accepts it. With rerun_on_interruption: false in the \
             pool, it is not needed",
            pool.name
        )))
    }

    /// Returns the events of the pools' `warm_on` that GitHub does not send, each with the boxes to
    /// tick. GitHub offers an event only with its permission.
    /// Source: docs.github.com/en/webhooks/webhook-events-and-payloads
    fn lacks_to_warm(&self, pools: &[Pool]) -> Vec<Lack> {
        let is_missing = |event: WarmEvent| !self.events.iter().any(|one| one == event.as_str());
        let lacking = warming_events(pools).filter(|(event, _)| is_missing(*event));
        let sentence = |(event, pool): (WarmEvent, &Pool)| {
            let title = match event {
                WarmEvent::Push => "Push",
                WarmEvent::PullRequest => "Pull request",
                WarmEvent::CheckRun => "Check run",
            };
            let (_, permission) = permission_of(event);
            AppCheck::WarmEvent.lacks(format!(
                "pool {} is warmed by the event \"{title}\", to which the App is not subscribed: in the \
                 App's settings choose Permissions & events, give it the repository permission \
                 \"{permission}\" (read), and tick {title} under Subscribe to events; each account then \
                 accepts the permission",
                pool.name
            ))
        };
        lacking.map(sentence).collect()
    }

    fn may_write(&self, permission: &str) -> bool {
        self.permissions.get(permission).is_some_and(|level| level == "write" || level == "admin")
    }
}

/// Returns the events of the pools' `warm_on`, each with the first pool that lists it.
fn warming_events(pools: &[Pool]) -> impl Iterator<Item = (WarmEvent, &Pool)> {
    WarmEvent::ALL.iter().filter_map(move |(_, event)| {
        let lists = |pool: &&Pool| pool.warm_on.iter().any(|rule| rule.event == *event);
        let pool = pools.iter().filter(|pool| !pool.is_removed()).find(lists)?;
        Some((*event, pool))
    })
}

/// Returns the permission that an event requires, with its title.
const fn permission_of(event: WarmEvent) -> (&'static str, &'static str) {
    match event {
        WarmEvent::Push => ("contents", "Contents"),
        WarmEvent::PullRequest => ("pull_requests", "Pull requests"),
        WarmEvent::CheckRun => ("checks", "Checks"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::AppName;
    use crate::pool::MarketPolicy;
    use crate::pool::warm::WarmRule;
    use crate::testkit::pool;

    fn app(events: &[&str], permissions: &[(&str, &str)]) -> AppSettings {
        let owned = |(name, level): &(&str, &str)| ((*name).to_owned(), (*level).to_owned());
        AppSettings {
            events: events.iter().map(ToString::to_string).collect(),
            permissions: permissions.iter().map(owned).collect(),
            ..AppSettings::default()
        }
    }

    fn of(entity: Option<&str>) -> Pool {
        Pool { entity: entity.map(|text| text.parse().expect("an entity")), ..pool() }
    }

    #[test]
    fn what_serves_the_pools_lacks_nothing() {
        let acme = app(&[JOBS], &[(ACTIONS, "read"), (RUNNERS_OF_ORGANIZATIONS, "write")]);
        assert!(acme.lacks(&[of(None), of(Some("acme"))]).is_empty());
        let web = app(&["push", JOBS], &[(ACTIONS, "write"), (RUNNERS_OF_REPOSITORIES, "write")]);
        assert!(web.lacks(&[of(None), of(Some("acme/web"))]).is_empty());
    }

    #[test]
    fn the_remedy_for_another_app_does_not_name_the_main_apps_secret_and_url() {
        let two: AppName = "two".parse().expect("a name");
        for status in [401, 403, 404] {
            let main = delivery_remedy(Some(status), "ci", AppName::MAIN);
            assert!(main.contains("ci/webhook-secret") || main.contains("WebhookUrl"), "{main}");
            let other = delivery_remedy(Some(status), "ci", two);
            assert!(other.ends_with("set it with: muster github --app two hook set"), "{other}");
            assert!(!other.contains("ci/") && !other.contains("WebhookUrl"), "{other}");
        }
    }

    /// An App for pools without `warm_on` needs no other event, and no other permission.
    #[test]
    fn the_events_that_warm_a_pool_are_told() {
        use WarmEvent::{CheckRun, PullRequest, Push};
        let warmed = |events: &[WarmEvent]| {
            let rule = |event: &WarmEvent| WarmRule {
                event: *event,
                repositories: Vec::new(),
                branches: Vec::new(),
                idle: 1,
                for_seconds: WarmRule::FOR,
            };
            Pool { warm_on: events.iter().map(rule).collect(), ..of(None) }
        };
        let told = |events: &[&str], pools: &[Pool]| {
            let rights = [(ACTIONS, "read"), (RUNNERS_OF_ORGANIZATIONS, "write")];
            let lacks = app(events, &rights).lacks(pools);
            lacks.into_iter().map(|lack| (lack.check, lack.sentence)).collect::<Vec<_>>()
        };
        let [push, pull] = &told(
            &[JOBS, "check_run"],
            &[of(None), warmed(&[Push, Push]), warmed(&[PullRequest, CheckRun])],
        )[..] else {
            panic!("two events")
        };
        assert_eq!((push.0, pull.0), (AppCheck::WarmEvent, AppCheck::WarmEvent));
        assert!(push.1.contains("the repository permission \"Contents\" (read), and tick Push"));
        assert!(pull.1.contains("\"Pull requests\" (read), and tick Pull request under"));
        assert_eq!(told(&[JOBS, "push"], &[warmed(&[Push])]), []);
        let removed = Pool { removed_at: Some(crate::testkit::at(0)), ..warmed(&[Push]) };
        assert_eq!(told(&[JOBS], &[removed]), []);
    }

    #[test]
    fn the_permission_to_re_run_is_needed_where_a_pool_re_runs() {
        let of = |market, policy| Pool { market, rerun_on_interruption: policy, ..of(None) };
        let told = |level, pool: Pool| {
            let rights = [(ACTIONS, level), (RUNNERS_OF_ORGANIZATIONS, "write")];
            let lacks = app(&[JOBS], &rights).lacks(&[pool]);
            lacks.into_iter().map(|lack| lack.check).collect::<Vec<_>>()
        };
        let (spot, demand) = (MarketPolicy::Spot, MarketPolicy::OnDemand);
        assert_eq!(told("read", of(spot, None)), [AppCheck::Reruns]);
        assert_eq!(told("read", of(demand, Some(RerunPolicy::All))), [AppCheck::Reruns]);
        assert_eq!(told("read", of(spot, Some(RerunPolicy::Off))), []);
        assert_eq!(told("read", of(demand, None)), []);
        assert_eq!(told("write", of(spot, None)), []);
    }

    #[test]
    fn each_lack_is_told() {
        let pools = [of(Some("acme")), of(Some("acme/web"))];
        let both = [(RUNNERS_OF_ORGANIZATIONS, "write"), (RUNNERS_OF_REPOSITORIES, "write")];
        let may = |rest: &[(&str, &str)]| app(&[JOBS], &[&[(ACTIONS, "read")], rest].concat());
        let lacking = |sentence| AppCheck::Permissions.lacks(sentence);
        assert_eq!(app(&[JOBS], &both).lacks(&pools), [lacking(NO_ACTIONS)]);
        assert_eq!(may(&both[..1]).lacks(&pools), [lacking(NO_REPOSITORY)]);
        assert_eq!(may(&both[1..]).lacks(&pools), [lacking(NO_ORGANIZATION)]);
        assert_eq!(may(&[]).lacks(&[of(None)]), [lacking(NO_RUNNERS)]);
        let reads = may(&[(RUNNERS_OF_ORGANIZATIONS, "read")]);
        assert_eq!(reads.lacks(&[of(Some("acme"))]), [NO_ORGANIZATION, NO_RUNNERS].map(lacking));
        let deaf = AppSettings { events: vec!["push".to_owned()], ..may(&both) };
        assert_eq!(deaf.lacks(&pools), [AppCheck::Event.lacks(NO_EVENTS)]);
    }
}
