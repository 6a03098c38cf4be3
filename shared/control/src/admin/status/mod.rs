//! The stack as a whole, and what somebody should look at there.

mod pools;

use std::cell::RefCell;
use std::collections::BTreeMap;

use futures_util::future::{try_join_all, try_join4, try_join5};
use muster_domain::SCHEMA;
use muster_domain::agent::{Agents, Standing};
use muster_domain::ids::{Entity, PoolName};
use muster_domain::job::Job;
use muster_domain::launch::cooldown::Cooldowns;
use muster_domain::launch::trouble::{Trouble, TroubleScope};
use muster_domain::pool::Pool;
use muster_domain::pool::limits::Scope;
use muster_domain::stored::Stored;
use muster_domain::time::Time;

pub(super) use self::pools::refused_ends;

use self::pools::Around;
use super::answers::{
    AgentsStatus, Answer, AppStatus, EntityStatus, ImageAgent, LimitStatus, OrphanStatus, Overview,
    ShownSwitches, StackStatus, UnservedJob, UnservedJobs, Want,
};
use super::switch::SUBJECT;
use super::wants::{Facts, at_most, damaged, not_rolled_up, wants};
use super::{Admin, AdminError};
use crate::app_watch::AppWatch;
use crate::context::{Context, Ports, Wired};
use crate::notices::Notices;
use crate::ports::{Directory, Jobs as _, Launches as _, Operations as _, ReadError, Table};
use crate::sums::late_since;

/// How many of the jobs that nobody launches for are looked at for their reasons.
const LOOKED_AT: u32 = 100;
/// How many of these reasons are shown at most.
const REASONS_SHOWN: usize = 10;
/// How many of the last settings of switches `status` shows.
const SWITCHINGS_SHOWN: u32 = 10;
/// How many of what somebody should look at `overview` shows.
const WANTS_SHOWN: usize = 20;

/// What is known of the stack without GitHub.
struct Seen {
    /// Without `wants`.
    overview: Overview,
    cooldowns: Option<Cooldowns>,
    entities: Vec<EntityStatus>,
    orphans: Vec<OrphanStatus>,
    notices: Option<Notices>,
    /// Since when the roll-up of costs is outstanding.
    costs_due: Option<Time>,
    /// Records that cannot be read. What they hold is left out.
    damages: Vec<ReadError>,
}

impl Seen {
    /// Lists what needs attention. `app`: what GitHub has just answered; without it, what the last
    /// check on record found.
    fn wants(&self, app: Option<&AppStatus>) -> Vec<Want> {
        let (overview, cooldowns) = (&self.overview, self.cooldowns.as_ref());
        let checked = self.notices.as_ref().and_then(|record| record.app.as_ref());
        let checked = checked.map(|checked| checked.reported(overview.now));
        let mut all = damaged(&self.damages);
        all.extend(wants(&Facts {
            overview,
            app: app.or(checked.as_ref()),
            foreign: cooldowns.map_or(&[][..], |known| &known.foreign),
            failing: cooldowns.map_or(&[][..], |known| &known.failing),
            troubles: cooldowns.map_or(&[][..], |known| &known.troubles),
            cooldowns: &cooldowns.map(|known| known.reported(overview.now)).unwrap_or_default(),
            orphans: &self.orphans,
            notices: self.notices.as_ref(),
        }));
        all.extend(self.costs_due.map(|due| not_rolled_up(due, overview.now)));
        all
    }
}

/// Lists what needs attention, by the records alone: GitHub is not asked.
///
/// # Errors
/// When the tables do not answer.
pub async fn wanted<W: Wired<Table: Table>>(
    context: Context<'_, W>,
    now: Time,
) -> Result<Vec<Want>, ReadError> {
    Ok(Look { context }.seen(now).await?.wants(None))
}

impl<P: Ports<Github: Directory>> Admin<'_, P> {
    pub(super) async fn overview(&self, now: Time) -> Result<Answer, AdminError> {
        let seen = Look { context: self.context }.seen(now).await?;
        let wants = at_most(WANTS_SHOWN, seen.wants(None));
        Ok(Answer::Overview(Box::new(Overview { wants, ..seen.overview })))
    }

    pub(super) async fn status(&self, github: bool, now: Time) -> Result<Answer, AdminError> {
        let seen = Look { context: self.context }.seen(now).await?;
        let watch = AppWatch { context: self.context };
        let app = if github { Some(watch.status(&watch.facts().await, now)) } else { None };
        let wants = seen.wants(app.as_ref());
        Ok(Answer::Status(Box::new(StackStatus {
            overview: Overview { wants, ..seen.overview },
            cooldowns: seen.cooldowns.map(|known| known.reported(now)),
            switched: self.context.table.audit(SUBJECT, SWITCHINGS_SHOWN).await?,
            app,
            entities: seen.entities,
            orphans: seen.orphans,
        })))
    }
}

/// What was read. A record that cannot be read is noted and left out, so that it hides no other.
async fn noted<R>(
    damages: &RefCell<Vec<ReadError>>,
    read: impl Future<Output = Result<Option<R>, ReadError>>,
) -> Result<Option<R>, ReadError> {
    match read.await {
        Err(damage @ ReadError::Unreadable { .. }) => {
            damages.borrow_mut().push(damage);
            Ok(None)
        }
        read => read,
    }
}

/// Looks at the stack without GitHub.
struct Look<'a, W: Wired> {
    context: Context<'a, W>,
}

impl<W: Wired<Table: Table>> Look<'_, W> {
    /// Reads all of it side by side. Of pools and jobs the table counts, and sends no records.
    async fn seen(&self, now: Time) -> Result<Seen, ReadError> {
        let Context { table, settings, .. } = self.context;
        let damages = RefCell::new(Vec::from_iter(settings.damage.clone()));
        let counted = settings.pools.iter().map(|pool| self.counted(pool, &damages, now));
        let (counted, nobodys, records, costs_due) = try_join4(
            try_join_all(counted),
            try_join4(
                table.count_unmatched_jobs(),
                table.unmatched_jobs(LOOKED_AT),
                table.count_gated_jobs(),
                table.gated_jobs(LOOKED_AT),
            ),
            try_join5(
                noted(&damages, table.switches()),
                noted(&damages, table.cooldowns()),
                table.orphans(),
                async {
                    let limits = noted(&damages, async { self.limits().await.map(Some) });
                    limits.await.map(Option::unwrap_or_default)
                },
                noted(&damages, table.notices()),
            ),
            late_since(table, now),
        )
        .await?;
        let (unserved, first_unserved, gated, first_gated) = nobodys;
        let (switches, cooldowns, orphans, limits, notices) = records;
        let switches = switches.map(Stored::into_record).unwrap_or_default();
        let cooldowns = cooldowns.map(Stored::into_record);
        let troubles = cooldowns.as_ref().map_or(&[][..], |known| &known.troubles);
        let entities = self.entities(troubles, now);
        let around =
            Around { switches: &switches, cooldowns: cooldowns.as_ref(), entities: &entities, now };
        let agents = cooldowns.as_ref().map(|known| self.agents(&known.agents, now));
        let overview = Overview {
            stack: settings.stack.clone(),
            release: crate::RELEASE.into(),
            record_version: SCHEMA,
            now,
            pools: counted.into_iter().map(|counted| counted.shown(&around)).collect(),
            unserved: reasons(unserved, &first_unserved, now),
            waiting_for_approval: reasons(gated, &first_gated, now),
            limits,
            switches: ShownSwitches::new(&switches, now),
            agents: agents.unwrap_or_default(),
            wants: Vec::new(),
        };
        let orphans = orphans.into_iter().map(Stored::into_record).map(OrphanStatus::from);
        let notices = notices.map(Stored::into_record);
        let (orphans, damages) = (orphans.collect(), damages.into_inner());
        Ok(Seen { overview, cooldowns, entities, orphans, notices, costs_due, damages })
    }

    /// The entities that a pool names and those that GitHub refuses or limits. One that no pool names
    /// is known by its trouble alone.
    fn entities(&self, troubles: &[Trouble], now: Time) -> Vec<EntityStatus> {
        let pools = &self.context.settings.pools;
        let named = pools.iter().filter_map(|pool| pool.entity.as_ref());
        let troubled = troubles.iter().filter_map(|one| one.scope.entity());
        let all: BTreeMap<Entity, &Entity> =
            troubled.chain(named).map(|entity| (entity.lower_case(), entity)).collect();
        let of = |entity: &Entity| -> Vec<PoolName> {
            let is_of = |pool: &&Pool| pool.entity.as_ref().is_some_and(|own| own.same_as(entity));
            pools.iter().filter(is_of).map(|pool| pool.name.clone()).collect()
        };
        let shown = |entity: &Entity| {
            let is_of = |one: &&Trouble| one.scope.entity().is_some_and(|own| own.same_as(entity));
            let own: Vec<Trouble> = troubles.iter().filter(is_of).cloned().collect();
            let refusal = own.iter().find(|one| matches!(one.scope, TroubleScope::Entity(_)));
            let limit =
                |one: &&Trouble| matches!(one.scope, TroubleScope::Limit(_)) && now < one.until;
            let held = refusal.or_else(|| own.iter().find(limit));
            EntityStatus {
                entity: entity.clone(),
                pools: of(entity),
                healthy: held.is_none(),
                unauthorized_since: refusal.map(|one| one.since),
                launches_held: held.map(Trouble::sentence),
                troubles: own.clone(),
            }
        };
        all.into_values().map(shown).collect()
    }

    /// The agents of pools' images.
    fn agents(&self, known: &Agents, now: Time) -> AgentsStatus {
        let newest = known.newest();
        let shown = |pool: &Pool| {
            let version = *known.images.get(&pool.name)?;
            let until = match known.standing(version, newest, now)? {
                Standing::Newest => return None,
                Standing::Until(time) => Some(time),
                Standing::TooOld => None,
            };
            Some(ImageAgent { pool: pool.name.clone(), version, until })
        };
        let images = self.context.settings.pools.iter().filter_map(shown).collect();
        AgentsStatus { newest, images }
    }

    /// What the limits of stack and entities count.
    async fn limits(&self) -> Result<Vec<LimitStatus>, ReadError> {
        let Context { table, settings, .. } = self.context;
        let scopes = settings.limits.scopes();
        if scopes.is_empty() {
            return Ok(Vec::new());
        }
        let counts = table.counts(&scopes).await?;
        let status = |scope: Scope| LimitStatus {
            max: settings.limits.max(&scope),
            live: counts.get(&scope).copied().unwrap_or(0),
            of: scope,
        };
        Ok(scopes.into_iter().map(status).collect())
    }
}

/// How many jobs there are, and of the first ones how many for each reason.
fn reasons(count: usize, first: &[Stored<Job>], now: Time) -> UnservedJobs {
    let mut oldest_seconds = None;
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for job in first {
        let UnservedJob { age_seconds, reason, .. } = UnservedJob::new(job.record().clone(), now);
        oldest_seconds = oldest_seconds.max(Some(age_seconds));
        *reasons.entry(reason).or_default() += 1;
    }
    let mut reasons: Vec<(String, usize)> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let (looked_at, reasons) = (first.len(), reasons.into_iter().take(REASONS_SHOWN).collect());
    // The two are read apart, and the count may be the later one.
    UnservedJobs { count: count.max(looked_at), oldest_seconds, looked_at, reasons }
}
