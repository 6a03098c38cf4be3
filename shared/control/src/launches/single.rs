//! A launch of one machine that no job needs: a canary, or a machine of an image's build. It is planned and committed
//! here; the pool's next pass finds the open launch and calls EC2.

use futures_util::future::join3;
use muster_domain::causes::with_causes;
use muster_domain::image::ImageChoice;
use muster_domain::instance::Instance;
use muster_domain::launch::plan::{self, PlannedLaunch, View};
use muster_domain::launch::verdict::Block;
use muster_domain::message::WakePool;
use muster_domain::pool::Pool;
use muster_domain::pool::capacity::Capacity;
use muster_domain::stored::{Change, Stored};
use muster_domain::time::{Seconds, Time};

use crate::Settings;
use crate::context::{Context, Wired};
use crate::launches::conditions;
use crate::ports::{LaunchConditions, Queue, ReadError, Table, Write};

/// When the pool is woken a second time: the index of open launches may not show this one yet when
/// the first wake-up arrives.
const AGAIN: Seconds = Seconds(5);
/// Maximum number of jobs that are read to see what the pool's capacity is needed for.
const MAX_DEMAND: u32 = 1_000;

/// Why no machine is launched.
#[derive(Debug)]
pub(crate) enum NotPlanned {
    /// A record cannot be read.
    Read(ReadError),
    /// A condition of the pool blocks it.
    Blocked(Block),
    /// The pool's name is too long for a launch ID.
    NoName,
}

impl From<ReadError> for NotPlanned {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}

/// A planned launch of one machine.
pub(crate) struct SingleLaunch {
    /// The plan, with one idle instance.
    pub(crate) planned: PlannedLaunch,
    capacity: Option<Stored<Capacity>>,
}

impl SingleLaunch {
    /// Plans a machine of a pool, which must name an entity. `image` returns the image to launch it with. `seed` makes
    /// its launch ID unique.
    pub(crate) async fn plan<T: Table>(
        table: &T,
        settings: &Settings,
        pool: &Pool,
        image: impl FnOnce(&LaunchConditions) -> ImageChoice,
        seed: u64,
        now: Time,
    ) -> Result<Self, NotPlanned> {
        let (read, demand, free) = join3(
            table.launch_conditions(&pool.name),
            table.demand(&pool.name, MAX_DEMAND),
            table.free_instances(&pool.name),
        )
        .await;
        let (read, demand, free) = (read?, demand?, free?);
        let conditions =
            conditions::of_pool(table, settings, pool, &read, &demand, &free, now).await?;
        let view = View {
            stack: &settings.stack,
            pool,
            conditions,
            demand: Vec::new(),
            supply: Vec::new(),
            retries: Vec::new(),
            warm: &[],
            images: image(&read),
            seed,
            now,
            timings: &settings.timings,
        };
        let planned = plan::canary(view).map_err(NotPlanned::Blocked)?.ok_or(NotPlanned::NoName)?;
        Ok(Self { planned, capacity: read.capacity })
    }

    /// Returns the writes of a launch pass, except its lease. The pool's counter is replaced on
    /// condition that it is unchanged, so a concurrent launch causes a conflict.
    pub(crate) fn writes(&self, settings: &Settings) -> Vec<Write> {
        let Self { planned, capacity } = self;
        let pool = &planned.launch.pool;
        let read = capacity.as_ref();
        let mut counted =
            read.map_or_else(|| Capacity::empty(pool.clone()), |stored| stored.record().clone());
        counted.live += 1;
        let mut writes = vec![
            Change::create(planned.launch.clone()).into(),
            Change::from_read(read, counted).into(),
        ];
        for Instance { counted_in, .. } in &planned.idle {
            writes.extend(counted_in.iter().map(|scope| Write::CountUp {
                scope: scope.clone(),
                count: 1,
                max: settings.limits.max(scope).unwrap_or(u32::MAX),
            }));
        }
        writes.extend(planned.idle.iter().cloned().map(Change::create).map(Write::from));
        writes
    }
}

/// Wakes a pool for a launch that was just committed.
pub(crate) async fn wake<W: Wired<Queue: Queue>>(context: Context<'_, W>, pool: &Pool) {
    let wake = [WakePool::whole(pool.name.clone())];
    for delay in [Seconds(0), AGAIN] {
        if let Err(error) = context.queue.send_wakes(&wake, delay).await {
            tracing::warn!(
                error = with_causes(&error),
                "failed to wake the pool; the sweep does when the machine is due"
            );
        }
    }
}
