//! Arguments of the commands about the machine images.

use clap::{Args, Subcommand};
use muster_api::ImageOrder;
use muster_domain::ids::FamilyKey;
use muster_domain::time::Seconds;

use super::Attribution;
use crate::words::read_span;

/// A command about the machine images.
#[derive(Clone, Debug, Subcommand)]
pub enum ImageCommand {
    /// Show the images, their builds, and what comes next (default)
    Status(WatchArgs),
    /// Build images, and boot machines from them
    On(ImageOrderArgs),
    /// Build no images, and boot machines from the launch template's image; keeps the images (asks first)
    Off(ImageOrderArgs),
    /// Build an image now instead of at the next weekly build
    Build {
        #[command(flatten)]
        of: FamilyArgs,
        #[command(flatten)]
        order: ImageOrderArgs,
        /// Follow the build until it ends
        #[arg(long, conflicts_with = "dry_run")]
        watch: bool,
    },
    /// Show what happened to the images, newest first: builds, failures and orders
    History {
        /// Time span, for example `7d` or `90d`
        #[arg(long, default_value = "90d", value_parser = read_span)]
        since: Seconds,
    },
    /// Go back to the previous image, or without one to the launch template's (asks first)
    Rollback {
        #[command(flatten)]
        of: FamilyArgs,
        #[command(flatten)]
        order: ImageOrderArgs,
    },
    /// Delete the images with their snapshots; without --family also turns images off (asks first)
    Delete {
        #[command(flatten)]
        of: FamilyArgs,
        #[command(flatten)]
        order: ImageOrderArgs,
    },
}

impl ImageCommand {
    /// Returns the order that it gives, with its family and its options.
    #[must_use]
    pub fn order(&self) -> Option<(ImageOrder, Option<&FamilyKey>, &ImageOrderArgs)> {
        match self {
            Self::Status(_) | Self::History { .. } => None,
            Self::On(order) => Some((ImageOrder::On, None, order)),
            Self::Off(order) => Some((ImageOrder::Off, None, order)),
            Self::Build { of, order, .. } => Some((ImageOrder::Build, of.family.as_ref(), order)),
            Self::Rollback { of, order } => Some((ImageOrder::Rollback, of.family.as_ref(), order)),
            Self::Delete { of, order } => Some((ImageOrder::Delete, of.family.as_ref(), order)),
        }
    }

    /// Returns whether it follows builds.
    #[must_use]
    pub const fn watches(&self) -> bool {
        match self {
            Self::Status(WatchArgs { watch }) | Self::Build { watch, .. } => *watch,
            Self::On(_)
            | Self::Off(_)
            | Self::History { .. }
            | Self::Rollback { .. }
            | Self::Delete { .. } => false,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, Args)]
pub struct WatchArgs {
    /// Follow the builds until they end
    #[arg(long)]
    pub watch: bool,
}

/// The family of pools whose machines share an image.
#[derive(Clone, Debug, Default, Args)]
pub struct FamilyArgs {
    /// Only this image family, from `muster image`, for example `x64`
    #[arg(long)]
    pub family: Option<FamilyKey>,
}

/// Options of every order about images.
#[derive(Clone, Debug, Default, Args)]
pub struct ImageOrderArgs {
    #[command(flatten)]
    pub attribution: Attribution,
    /// Show what would happen without doing it
    #[arg(long)]
    pub dry_run: bool,
    /// Skip the confirmation prompt
    #[arg(long, short)]
    pub yes: bool,
}
