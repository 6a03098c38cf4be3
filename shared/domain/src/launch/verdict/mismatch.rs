//! Brake: the pool does not serve the job, or no longer does.

use super::{Block, BlockScope, Brake, Case, Wanted};

pub(super) fn brake(case: &Case<'_>) -> Option<Block> {
    let why = match case.wanted {
        Wanted::Job(job) => match case.pool.serves(job) {
            Err(mismatch) => {
                format!("pool {} no longer serves it: {mismatch}", case.pool.name)
            }
            Ok(()) if case.entity.is_none() => "the job names no entity for runners".to_owned(),
            Ok(()) => return None,
        },
        Wanted::Idle if case.entity.is_none() => "the pool names no entity for runners".to_owned(),
        Wanted::Slot(_) | Wanted::Idle => return None,
    };
    // A change of the pool wakes it, and each sweep looks for a different pool.
    Some(Block {
        brake: Brake::Mismatch,
        until: None,
        why,
        scope: BlockScope::Job,
        elsewhere: true,
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{For, Scene};
    use super::{BlockScope, Brake};
    use crate::job::labels::Labels;
    use crate::testkit::With as _;

    #[test]
    fn a_pool_launches_for_the_jobs_that_it_serves() {
        let own = Scene::new();
        let disabled = own.clone().with(|all| all.pool.enabled = false);
        let windows = own.clone().with(|all| all.job.last_event.labels = Labels::new(["windows"]));
        let open = own.clone().with(|all| {
            (all.pool.entity, all.pool.repositories) = (None, vec!["*".to_owned()]);
        });
        let homeless = open.clone().with(|all| all.job.last_event.repository = "nothing".into());
        let not = "pool default no longer serves it: ";
        let rows = [
            ("a job of its entity", &own, For::Job, None),
            ("of any entity", &open, For::Job, None),
            (
                "labels",
                &windows,
                For::Job,
                Some(format!("{not}its runners lack the label \"windows\"")),
            ),
            ("disabled", &disabled, For::Job, Some(format!("{not}it is disabled"))),
            ("of nobody", &homeless, For::Job, Some("the job names no entity for runners".into())),
            // A slot exists already, and so does its job.
            ("a slot", &disabled, For::Slot, None),
            ("the min idle", &own, For::Idle, None),
            ("for nobody", &open, For::Idle, Some("the pool names no entity for runners".into())),
        ];
        for (name, all, what, why) in rows {
            let told = why.map(|why| (why, None, BlockScope::Job, true));
            assert_eq!(all.says(Brake::Mismatch, what), told, "{name}");
        }
    }
}
