//! A seed always tells the same story, on any number of threads; and a day without faults is a
//! quiet one. Days with faults are run by `make simulate`.

use muster_sim::agenda::MINUTE;
use muster_sim::fault::{Counts, Fault};
use muster_sim::many::{run_many, threads};
use muster_sim::run::run;
use muster_sim::schedule::{Approval, Plan};

#[test]
fn a_seed_always_tells_the_same_story() {
    for seed in 0..20 {
        let (first, second) = (run(seed, true), run(seed, true));
        assert_eq!(first.trace, second.trace, "seed {seed}");
        assert!(!first.trace.is_empty(), "seed {seed} tells nothing");
    }
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let (alone, _) = run_many(100..200, 1, false, Plan::of, |_| ());
    let (together, _) = run_many(100..200, 3, false, Plan::of, |_| ());
    assert_eq!(alone, together);
}

/// Nothing fails, nobody orders anything: every job is served. The one exception is a job that
/// GitHub gives to an idle runner in the moment in which its DELETE is on its way.
#[test]
fn without_faults_every_job_is_served_and_nothing_is_left_behind() {
    let calm = |seed| {
        let mut plan = Plan::of(seed).without(Fault::ALL);
        plan.orders.clear();
        plan.flips.clear();
        // What any job may count on is half of its machine's longest life, and that is four hours.
        for job in &mut plan.jobs {
            job.length = job.length.min(110 * MINUTE);
            // Nobody serves what nobody approves.
            job.gate = job.gate.filter(|(_, approval)| matches!(approval, Approval::Given(_)));
        }
        plan
    };
    let (totals, failed) = run_many(0..400, threads(), false, calm, |_| ());
    assert!(failed.is_empty(), "{:?}", failed.first());
    let tally = &totals.tally;
    assert_eq!(totals.counts, Counts::default());
    assert_eq!(tally.registrations_left + tally.dead_letters + tally.lost_to_cloud, 0);
    assert_eq!(tally.cut_short, 0, "jobs that a waiting runner's age ended");
    let ended = tally.served + tally.cancelled + tally.not_ours + tally.refused + tally.foreign;
    assert_eq!(ended, tally.jobs);
    assert!(tally.refused * 2_000 < tally.jobs, "{} of {}", tally.refused, tally.jobs);
    // A job that is cancelled while its machine boots costs some minutes.
    assert!(tally.in_vain * 20 < tally.machines, "{} of {}", tally.in_vain, tally.machines);
    assert!(tally.wasted * 50 < tally.spent, "{} of {}", tally.wasted, tally.spent);
    // EC2 bills from `running`, some seconds after it has answered the launch.
    let off = tally.told.abs_diff(tally.spent);
    assert!(off * 100 < tally.spent, "usage tells {}, the bill {}", tally.told, tally.spent);
}

/// Images are built, tried, rolled back and deleted under any fault at any step. Each family ends with one current image
/// or with a reason to wait, no image or snapshot is left, and no builder was configured (I15).
#[test]
fn days_with_images_end_with_one_image_and_nothing_left() {
    let with_images = |seed| {
        let plan = Plan::of(seed);
        if plan.images.is_empty() { plan.with_images() } else { plan }
    };
    let (totals, failed) = run_many(0..150, threads(), false, with_images, |_| ());
    assert!(failed.is_empty(), "{:?}", failed.first());
    assert!(totals.tally.images_made > 150, "{} images", totals.tally.images_made);
    let of_images = [
        Fault::ImageAnswerLost,
        Fault::ImageTimedOut,
        Fault::ImageDenied,
        Fault::ImageSlow,
        Fault::ImageFails,
        Fault::ImageBroken,
        Fault::ImageHidden,
        Fault::BuilderFails,
    ];
    for fault in of_images {
        assert!(totals.counts.of(fault) > 0, "{fault:?} never struck");
    }
}
