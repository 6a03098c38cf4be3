//! The set of pools: shows it, applies a file, restores a version.

use std::collections::BTreeSet;

use futures_util::future::{join, join_all, try_join_all};
use muster_api::answers::{Answer, AppliedPools, PoolsHistory, ShownPools};
use muster_api::{AdminError, AdminErrorCode, PoolsRequest, check_reason, yaml};
use muster_domain::app::{AppFacts, narrow_groups};
use muster_domain::audit::{Audit, AuditKind};
use muster_domain::causes::with_causes;
use muster_domain::ids::{AppName, Entity, EntityKind};
use muster_domain::message::WakePool;
use muster_domain::pool::{OwnTemplate, Pool};
use muster_domain::pool_file::{self, NamedTemplate, PoolFile, Problem, ReadPoolFile};
use muster_domain::pool_set::{Diff, Fate, MAX_VERSIONS, PoolSet};
use muster_domain::time::{Seconds, Time};

use super::Admin;
use crate::Settings;
use crate::context::Ports;
use crate::pools::{LastApplied, POOLS_SUBJECT, end_outdated, kept, last_applied};
use crate::ports::{Catalogue, Directory, Operations as _, Queue as _, Table as _, Write};
use crate::writes::{Before, PassError, in_rounds};

/// The ID of GitHub's default runner group.
const DEFAULT_GROUP: u64 = 1;

impl<P: Ports<Compute: Catalogue, Github: Directory>> Admin<'_, P> {
    pub(super) async fn pool_set(
        &self,
        request: &PoolsRequest,
        now: Time,
    ) -> Result<Answer, AdminError> {
        match (&request.file, request.restore, request.history) {
            (None, None, false) => {
                let stored = self.stored_set().await?;
                Ok(Answer::Pools(shown(&self.in_force(stored.set()))))
            }
            (None, None, true) => self.history().await,
            (Some(text), None, false) => {
                let reading = self.read_file(text).await?;
                self.apply(&reading, request, "applied", now).await
            }
            (None, Some(version), false) => {
                let Some(set) = kept(self.context.table, version).await? else {
                    let message =
                        format!("version {version} is not stored or cannot be read; see history");
                    return Err(AdminError::new(AdminErrorCode::NotFound, message));
                };
                let what = format!("version {version} restored");
                // Stored versions are already resolved.
                let reading = ReadPoolFile { file: set.file(), resolved: Vec::new() };
                self.apply(&reading, request, &what, now).await
            }
            _ => Err(AdminError::new(
                AdminErrorCode::BadRequest,
                "pools accepts at most one of \"file\", \"restore\" and \"history\"",
            )),
        }
    }

    async fn read_file(&self, text: &str) -> Result<ReadPoolFile, AdminError> {
        let value = yaml::read(text).map_err(|error| {
            refused(vec![Problem { path: String::new(), what: with_causes(&error) }])
        })?;
        self.resolve(value).await
    }

    /// Returns an error for each lifetime beyond what the stack's launch template allows, which
    /// also affects restored versions. The default lifetime is shortened silently.
    fn too_long(&self, file: &PoolFile) -> Vec<Problem> {
        let most = self.context.settings.longest_life;
        let is_longer = |life: Seconds| life > most && life != Pool::MAX_LIFETIME;
        let pools = file.pools.iter().enumerate();
        let longer = pools.filter(|(_, pool)| is_longer(pool.max_lifetime_seconds));
        longer
            .map(|(index, _)| Problem {
                path: format!("pools[{index}].limits.max_lifetime"),
                what: format!("the stack's machines power off after {most}; use at most that"),
            })
            .collect()
    }

    /// Returns an error for each pool that names an App which the stack does not have.
    fn unknown_apps(&self, file: &PoolFile) -> Vec<Problem> {
        let apps = self.context.settings.apps();
        let unknown = |pool: &Pool| {
            let named = pool.entity.iter().map(Entity::as_str);
            let mut named = named.chain(pool.repositories.iter().map(String::as_str));
            named
                .find_map(|text| AppName::split(text).filter(|(app, _)| !apps.contains(app)))
                .map(|(app, _)| app)
        };
        let pools = file.pools.iter().enumerate();
        let wrong = pools.filter_map(|(index, pool)| Some((index, unknown(pool)?)));
        wrong
            .map(|(index, app)| Problem {
                path: format!("pools[{index}]"),
                what: format!(
                    "the stack has no App named {app}; add it with: muster github --app {app} create"
                ),
            })
            .collect()
    }

    /// Returns a warning for each limit above the stack's own maximum, which always applies.
    fn above_the_stack(&self, file: &PoolFile) -> Vec<String> {
        let Some(most) = self.context.settings.max_machines else { return Vec::new() };
        let pools = file.pools.iter().enumerate();
        let pools = pools.map(|(index, pool)| (format!("pools[{index}].limits.max"), pool.max));
        let stack = file.limits.stack.map(|max| ("limits.stack".to_owned(), max));
        let above = stack.into_iter().chain(pools).filter(|(_, max)| *max > most);
        let told = |(path, max)| {
            format!(
                "! {path}: {max} is more than the stack's parameter MaxMachines; {most} applies"
            )
        };
        let idle = file.pools.iter().map(Pool::idle_wanted).fold(0, u32::saturating_add);
        let no_room = (idle > 0 && idle >= most).then(|| {
            format!(
                "! the pools keep {idle} runners idle (min_idle), and the stack's parameter \
                 MaxMachines, {most}, leaves no capacity for jobs"
            )
        });
        above.map(told).chain(no_room).collect()
    }

    /// Returns the current set: from the stack's parameters if no file was applied.
    fn in_force(&self, stored: Option<&PoolSet>) -> PoolSet {
        if let Some(set) = stored.filter(|set| set.version > 0) {
            return set.clone();
        }
        let Settings { pools, mut limits, max_machines, balance, .. } =
            self.context.settings.clone();
        // The stack's own maximum is not part of a file.
        limits.stack = limits.stack.filter(|_| max_machines.is_none());
        let app_owner = stored.and_then(|set| set.app_owner.clone());
        let other_apps = self.context.settings.other_apps.clone();
        PoolSet { app_owner, other_apps, ..PoolSet::from_parameters(pools, limits, balance) }
    }

    async fn apply(
        &self,
        ReadPoolFile { file, resolved }: &ReadPoolFile,
        request: &PoolsRequest,
        what: &str,
        now: Time,
    ) -> Result<Answer, AdminError> {
        let (narrow, boots) = join(self.narrow_groups(file), self.other_boots(file)).await;
        let answer = |set: &PoolSet, diff: Diff, applied| {
            let pools_version = set.version;
            let (resolved, mut lines) = (resolved.clone(), lines(&diff));
            lines.extend(self.above_the_stack(file));
            lines.extend(without_a_group(file));
            lines.extend(narrow.clone());
            lines.extend(boots.clone());
            let dry_run = request.dry_run;
            Answer::Applied(AppliedPools { applied, dry_run, pools_version, resolved, diff, lines })
        };
        let rights = self.context.settings.rights.as_ref();
        let mut problems = self.too_long(file);
        problems.extend(self.unknown_apps(file));
        problems.extend(rights.into_iter().flat_map(|rights| rights.refused(&file.pools)));
        if !problems.is_empty() {
            return Err(refused(problems));
        }
        let reason = request.reason.as_deref().map(check_reason).transpose()?;
        let by = request.by.as_deref().unwrap_or("operator");
        in_rounds(async || {
            let stored = self.stored_set().await?;
            let before = self.in_force(stored.set());
            let next = before.succeeded_by(file, by, now);
            if let Some(what) = pool_file::too_large(&next.pools) {
                return Err(refused(vec![with_the_removed(&what)]));
            }
            let diff = Diff::between(&before, &next);
            let is_damaged = stored.is_damaged();
            let changes = is_damaged || before.version == 0 || !diff.is_empty();
            if !request.dry_run && !changes {
                // The file is unchanged, but a resource that it names may not be, for example an
                // image behind a parameter.
                self.open_anew(|pool| pool.is_some(), now).await;
            }
            if request.dry_run || !changes {
                return Ok(answer(&before, diff, false));
            }
            let audit = line(&next, &diff, what, reason);
            self.context.table.commit(&writes(&stored, &next, audit)).await?;
            tracing::warn!(version = next.version, by, what, "operator applied a pool file");
            self.follow_up(&next, &diff, now).await;
            Ok(answer(&next, diff, true))
        })
        .await
    }

    /// Returns warnings about runner groups on GitHub that exclude public repositories which a pool
    /// serves. Warnings, because a group can be changed later; without an answer, `status` reports
    /// it later.
    async fn narrow_groups(&self, file: &PoolFile) -> Vec<String> {
        let pools = &file.pools;
        let wanted = AppFacts::groups_wanted(&Ok(Vec::new()), pools, AppName::MAIN);
        let asked = wanted.iter().map(async |entity| {
            let groups = self.context.github.groups(entity).await.ok()?;
            Some(narrow_groups(entity, &groups, pools))
        });
        let told = join_all(asked).await.into_iter().flatten().flatten();
        told.map(|lack| format!("! {}", lack.sentence)).collect()
    }

    /// Returns warnings about launch templates whose user data differs from the stack's, or that
    /// EC2 does not show. Warnings, because machines of the previous release boot too.
    async fn other_boots(&self, file: &PoolFile) -> Vec<String> {
        let own: BTreeSet<NamedTemplate> =
            file.pools.iter().filter_map(|pool| named(pool.own_template.as_ref()?)).collect();
        let Some(stacks) = self.context.settings.pools.first().filter(|_| !own.is_empty()) else {
            return Vec::new();
        };
        let stacks = NamedTemplate {
            id: stacks.launch_template_id.to_string(),
            version: stacks.launch_template_version.parse().ok(),
        };
        let Ok(Some(stacks)) = self.context.compute.template(&stacks).await else {
            return vec![
                "! could not check whether the pools' launch templates boot like the stack's: EC2 did \
                 not return the stack's template"
                    .to_owned(),
            ];
        };
        let compared = own.iter().map(async |named| {
            let what = match self.context.compute.template(named).await {
                Ok(Some(found)) if found.boots_as(&stacks) => return None,
                Ok(Some(_)) => {
                    "boots differently from the stack's template: deploy infra/machine.yaml of \
                     this release again, then apply the file"
                }
                Ok(None) => "no longer exists",
                Err(_) => "could not be compared with the stack's: EC2 did not answer",
            };
            Some(format!("! {named} {what}"))
        });
        join_all(compared).await.into_iter().flatten().collect()
    }

    /// Wakes pools and outdated instances, so that the change takes effect at once instead of with
    /// the next sweep: jobs may have capacity now, the new configuration may fix a failure, and
    /// runners may no longer match their pool.
    async fn follow_up(&self, set: &PoolSet, diff: &Diff, now: Time) {
        let changed = |pool: &&Pool| {
            let own = diff.pools.iter().find(|own| own.pool == pool.name);
            own.is_some_and(|own| own.fate != Fate::Unchanged)
        };
        // The launch template is not stored, and is not a reason to end an instance here.
        for pool in self.context.settings.with_template(set.clone()).pools.iter().filter(changed) {
            let wake = [WakePool::whole(pool.name.clone())];
            let woken =
                self.context.queue.send_wakes(&wake, Seconds(0)).await.map_err(PassError::from);
            let ended = end_outdated(self.context.table, self.context.queue, pool, now).await;
            if let Err(error) = woken.and(ended) {
                tracing::warn!(pool.name = %pool.name, error = with_causes(&error), "failed to wake outdated instances; the sweep does");
            }
        }
    }

    /// Reads the stored set; if its record cannot be parsed, the last version that can be.
    async fn stored_set(&self) -> Result<StoredSet, AdminError> {
        let before = Before::of(self.context.table.pool_set().await)?;
        let last = match before {
            Before::Read(_) => None,
            Before::Unreadable => Some(last_applied(self.context.table).await?),
        };
        // The next version number follows the last one, even if that version cannot be parsed.
        let last =
            last.filter(|last| last.version > 0).map(|LastApplied { version, set, .. }| {
                let set = set.unwrap_or_else(|| self.in_force(None));
                PoolSet { version, ..set }
            });
        Ok(StoredSet { before, last })
    }

    async fn history(&self) -> Result<Answer, AdminError> {
        let newest = self.in_force(self.stored_set().await?.set()).version;
        let oldest = (newest + 1).saturating_sub(MAX_VERSIONS).max(1);
        // Read separately, so that an unreadable version does not hide the others.
        let read = (oldest..=newest).rev().map(|version| kept(self.context.table, version));
        let kept: Vec<PoolSet> = try_join_all(read).await?.into_iter().flatten().collect();
        let audit = self
            .context
            .table
            .audit(POOLS_SUBJECT, u32::try_from(MAX_VERSIONS).unwrap_or(u32::MAX))
            .await?;
        let versions = kept.iter().map(shown).collect();
        Ok(Answer::PoolsHistory(PoolsHistory { versions, audit }))
    }
}

/// The set of pools that a request shows or replaces.
struct StoredSet {
    before: Before<PoolSet>,
    /// The last version that can be parsed, if the record cannot be.
    last: Option<PoolSet>,
}

impl StoredSet {
    fn set(&self) -> Option<&PoolSet> {
        self.before.record().or(self.last.as_ref())
    }

    const fn is_damaged(&self) -> bool {
        matches!(self.before, Before::Unreadable)
    }
}

pub(super) fn refused(errors: Vec<Problem>) -> AdminError {
    let message = match errors.len() {
        1 => "the pool file has a mistake; nothing was changed".to_owned(),
        count => format!("the pool file has {count} mistakes; nothing was changed"),
    };
    AdminError { errors, ..AdminError::new(AdminErrorCode::BadPoolFile, message) }
}

fn named(own: &OwnTemplate) -> Option<NamedTemplate> {
    Some(NamedTemplate { id: own.id.to_string(), version: Some(own.version.parse().ok()?) })
}

/// Returns the error for a file that conflicts with pools being removed: those stay recorded until
/// their last runner is gone.
fn with_the_removed(what: &str) -> Problem {
    Problem {
        path: "pools".to_owned(),
        what: format!(
            "together with the pools being removed: {what}. Apply only the removals first, and the rest \
             when those pools are gone"
        ),
    }
}

/// Returns one transaction: the set, a copy under its version, and the removal of the oldest
/// version.
fn writes(stored: &StoredSet, next: &PoolSet, audit: Audit) -> Vec<Write> {
    let mut writes = vec![
        stored.before.change(next.clone(), next.applied_at).into(),
        Write::PoolsVersion(Box::new(next.clone())),
        Write::Audit(audit),
    ];
    if let Some(oldest) = next.version.checked_sub(MAX_VERSIONS).filter(|version| *version > 0) {
        writes.push(Write::PoolsVersionGone(oldest));
    }
    writes
}

fn line(next: &PoolSet, diff: &Diff, what: &str, reason: Option<&str>) -> Audit {
    let of = |fate: Fate, sign: &str| -> Vec<String> {
        let pools = diff.pools.iter().filter(|pool| pool.fate == fate);
        pools.map(|pool| format!("{sign}{}", pool.pool)).collect()
    };
    let pools = [of(Fate::Added, "+"), of(Fate::Changed, "~"), of(Fate::Removed, "-")].concat();
    let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
    Audit {
        at: next.applied_at,
        kind: AuditKind::Applied,
        subject: POOLS_SUBJECT.to_owned(),
        by: next.by.clone(),
        why: format!("version {}, {what} ({}){reason}", next.version, pools.join(" ")),
    }
}

fn lines(diff: &Diff) -> Vec<String> {
    if diff.is_empty() { vec!["no changes".to_owned()] } else { diff.lines() }
}

/// Returns a warning for each pool that lists repositories and registers in the default group:
/// GitHub also assigns jobs of other repositories to its runners, and those fail.
fn without_a_group(file: &PoolFile) -> Vec<String> {
    let is_shared = |pool: &&Pool| {
        let of_one = pool.entity.as_ref().map(Entity::kind) == Some(EntityKind::Repository);
        let is_any = pool.repositories.iter().any(|one| one == Pool::ANY_REPOSITORY);
        let lists = !pool.repositories.is_empty() && !is_any;
        lists && !of_one && pool.runner_group_id == DEFAULT_GROUP
    };
    let warning = |pool: &Pool| {
        format!(
            "! pool {} lists repositories, but its runner group, {DEFAULT_GROUP}, may admit others, whose jobs fail on its machines. Use a runner group that admits the same repositories",
            pool.name
        )
    };
    file.pools.iter().filter(is_shared).map(warning).collect()
}

fn shown(set: &PoolSet) -> ShownPools {
    let plain = set.file();
    let mut file = pool_file::written_stack(&plain.limits, plain.balance);
    file["pools"] = plain.pools.iter().map(pool_file::written).collect();
    let removed = set.pools.iter().filter(|pool| pool.is_removed());
    ShownPools {
        pools_version: set.version,
        applied_at: (set.version > 0).then_some(set.applied_at),
        by: (set.version > 0).then(|| set.by.clone()),
        file,
        draining: removed.map(|pool| pool.name.clone()).collect(),
    }
}
