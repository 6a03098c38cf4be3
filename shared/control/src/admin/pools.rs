//! The set of pools: shown, applied from a file, restored.

use std::collections::BTreeSet;

use futures_util::future::{join, join_all, try_join_all};
use muster_domain::app::{AppFacts, narrow_groups};
use muster_domain::audit::{Audit, AuditKind};
use muster_domain::ids::{Entity, EntityKind};
use muster_domain::message::WakePool;
use muster_domain::pool::{OwnTemplate, Pool};
use muster_domain::pool_file::{self, NamedTemplate, PoolFile, Problem, ReadPoolFile};
use muster_domain::pool_set::{Diff, Fate, MAX_VERSIONS, PoolSet};
use muster_domain::time::{Seconds, Time};

use super::answers::{Answer, AppliedPools, PoolsHistory, ShownPools};
use super::request::{PoolsRequest, check_reason};
use super::{Admin, AdminError, AdminErrorCode};
use crate::Settings;
use crate::causes::with_causes;
use crate::context::Ports;
use crate::pools::{POOLS_SUBJECT, end_outdated, kept, last_applied};
use crate::ports::{Catalogue, Directory, Operations as _, Queue as _, Table as _, Write};
use crate::writes::{Before, PassError, in_rounds};

/// The number of GitHub's default runner group.
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
                        format!("version {version} is not kept, or cannot be read; see history");
                    return Err(AdminError::new(AdminErrorCode::NotFound, message));
                };
                let what = format!("version {version} restored");
                // Only what was resolved is kept: there is nothing to ask.
                let reading = ReadPoolFile { file: set.file(), resolved: Vec::new() };
                self.apply(&reading, request, &what, now).await
            }
            _ => Err(AdminError::new(
                AdminErrorCode::BadRequest,
                "pools takes one of \"file\", \"restore\" and \"history\", or none of them",
            )),
        }
    }

    async fn read_file(&self, text: &str) -> Result<ReadPoolFile, AdminError> {
        let value = (self.yaml)(text).map_err(|error| {
            refused(vec![Problem { path: String::new(), what: with_causes(&error) }])
        })?;
        self.resolve(value).await
    }

    /// What the file says of lives and the stack's launch template does not allow; a version that
    /// is restored may be from before. The default gives way silently.
    fn too_long(&self, file: &PoolFile) -> Vec<Problem> {
        let most = self.context.settings.longest_life;
        let is_longer = |life: Seconds| life > most && life != Pool::MAX_LIFETIME;
        let pools = file.pools.iter().enumerate();
        let longer = pools.filter(|(_, pool)| is_longer(pool.max_lifetime_seconds));
        longer
            .map(|(index, _)| Problem {
                path: format!("pools[{index}].limits.max_lifetime"),
                what: format!("the stack's machines power off after {most}; write no longer time"),
            })
            .collect()
    }

    /// What the file asks for and does not get: the stack's own maximum holds whatever a file says.
    fn above_the_stack(&self, file: &PoolFile) -> Vec<String> {
        let Some(most) = self.context.settings.max_machines else { return Vec::new() };
        let pools = file.pools.iter().enumerate();
        let pools = pools.map(|(index, pool)| (format!("pools[{index}].limits.max"), pool.max));
        let stack = file.limits.stack.map(|max| ("limits.stack".to_owned(), max));
        let above = stack.into_iter().chain(pools).filter(|(_, max)| *max > most);
        let told = |(path, max)| {
            format!("! {path}: {max} is more than the stack's parameter MaxMachines; {most} holds")
        };
        let idle = file.pools.iter().map(Pool::idle_wanted).fold(0, u32::saturating_add);
        let no_room = (idle > 0 && idle >= most).then(|| {
            format!(
                "! the pools keep {idle} runners idle (min_idle), and the stack's parameter \
                 MaxMachines, {most}, leaves no room for jobs"
            )
        });
        above.map(told).chain(no_room).collect()
    }

    /// The set that holds: of the stack's parameters while no file was applied.
    fn in_force(&self, stored: Option<&PoolSet>) -> PoolSet {
        if let Some(set) = stored.filter(|set| set.version > 0) {
            return set.clone();
        }
        let Settings { pools, mut limits, max_machines, balance, .. } =
            self.context.settings.clone();
        // The stack's own maximum is no part of a file.
        limits.stack = limits.stack.filter(|_| max_machines.is_none());
        let app_owner = stored.and_then(|set| set.app_owner.clone());
        PoolSet { app_owner, ..PoolSet::from_parameters(pools, limits, balance) }
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
                // What the file names may have changed: an image behind a parameter, say.
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

    /// What keeps jobs of public repositories from pools that serve them, at GitHub. A warning: the
    /// group can be opened after the pool, and without an answer `status` says it later.
    async fn narrow_groups(&self, file: &PoolFile) -> Vec<String> {
        let pools = &file.pools;
        let wanted = AppFacts::groups_wanted(&Ok(Vec::new()), pools);
        let asked = wanted.iter().map(async |entity| {
            let groups = self.context.github.groups(entity).await.ok()?;
            Some(narrow_groups(entity, &groups, pools))
        });
        let told = join_all(asked).await.into_iter().flatten().flatten();
        told.map(|lack| format!("! {}", lack.sentence)).collect()
    }

    /// Launch templates whose user data is not the stack's, or that EC2 does not show any more. A
    /// warning: machines of the release before boot as well.
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
                "! whether own launch templates boot as the stack's does was not found out: EC2 does \
                 not show that one"
                    .to_owned(),
            ];
        };
        let compared = own.iter().map(async |named| {
            let what = match self.context.compute.template(named).await {
                Ok(Some(found)) if found.boots_as(&stacks) => return None,
                Ok(Some(_)) => {
                    "does not boot as the stack's machines: deploy infra/machine.yaml of this \
                                release again, and apply the file"
                }
                Ok(None) => "is not there any more",
                Err(_) => "was not compared with the stack's: EC2 gives no answer",
            };
            Some(format!("! {named} {what}"))
        });
        join_all(compared).await.into_iter().flatten().collect()
    }

    /// Lets the passes find at once what they would find in time: jobs that have room now, pools
    /// whose new configuration may be the fix of a failure, and runners that are not what their pool
    /// says.
    async fn follow_up(&self, set: &PoolSet, diff: &Diff, now: Time) {
        let changed = |pool: &&Pool| {
            let own = diff.pools.iter().find(|own| own.pool == pool.name);
            own.is_some_and(|own| own.fate != Fate::Unchanged)
        };
        // The launch template is not stored, and no reason for an end here.
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

    /// The stored set; where its record cannot be read, the last version that can be.
    async fn stored_set(&self) -> Result<StoredSet, AdminError> {
        let before = Before::of(self.context.table.pool_set().await)?;
        let last = match before {
            Before::Read(_) => None,
            Before::Unreadable => last_applied(self.context.table).await?,
        };
        // The next version follows the last one, whether that can be read or not.
        let last = last.map(|(version, set)| {
            let set = set.unwrap_or_else(|| self.in_force(None));
            PoolSet { version, ..set }
        });
        Ok(StoredSet { before, last })
    }

    async fn history(&self) -> Result<Answer, AdminError> {
        let newest = self.in_force(self.stored_set().await?.set()).version;
        let oldest = (newest + 1).saturating_sub(MAX_VERSIONS).max(1);
        // Each by itself, so that one that cannot be read hides no other.
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

/// The set of pools that a command shows or replaces.
struct StoredSet {
    before: Before<PoolSet>,
    /// The last version that can be read, where the record cannot be.
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

/// A pool that is taken out stays on record until its last runner is gone.
fn with_the_removed(what: &str) -> Problem {
    Problem {
        path: "pools".to_owned(),
        what: format!(
            "with the pools that are being removed: {what}. Take pools out first, and apply the rest when \
             those are gone"
        ),
    }
}

/// One transaction: the set, its version beside it, and the version that is too old now.
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
    if diff.is_empty() { vec!["nothing changes".to_owned()] } else { diff.lines() }
}

/// A warning for each pool that lists repositories and registers in the default group. GitHub gives
/// its runners the jobs of others as well, and those fail.
fn without_a_group(file: &PoolFile) -> Vec<String> {
    let is_shared = |pool: &&Pool| {
        let of_one = pool.entity.as_ref().map(Entity::kind) == Some(EntityKind::Repository);
        let is_any = pool.repositories.iter().any(|one| one == Pool::ANY_REPOSITORY);
        let lists = !pool.repositories.is_empty() && !is_any;
        lists && !of_one && pool.runner_group_id == DEFAULT_GROUP
    };
    let warning = |pool: &Pool| {
        format!(
            "! pool {} lists repositories, and its runner group, {DEFAULT_GROUP}, may admit others:              their jobs fail on its machines. Give it a runner group that admits the same ones",
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
