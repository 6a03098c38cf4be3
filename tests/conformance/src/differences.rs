//! Where a door does not do what a check says, and why that is left so. README.md shows the same as
//! a table.

use crate::Difference;

/// EC2 in the simulator.
pub const SIMULATOR_EC2: &[Difference] = &[];
/// GitHub in the simulator.
pub const SIMULATOR_GITHUB: &[Difference] = &[];
/// The names of a pool file in the simulator.
pub const SIMULATOR_NAMES: &[Difference] = &[];
/// The App's setup in the simulator.
pub const SIMULATOR_SETUP: &[Difference] = &[];
/// The tables in the simulator.
pub const SIMULATOR_TABLE: &[Difference] = &[];
/// The queues in the simulator.
pub const SIMULATOR_QUEUE: &[Difference] = &[];
/// EC2 on the wire.
pub const WIRE_EC2: &[Difference] = &[];
/// GitHub on the wire.
pub const WIRE_GITHUB: &[Difference] = &[];
/// The names of a pool file on the wire.
pub const WIRE_NAMES: &[Difference] = &[];
/// The App's setup on the wire.
pub const WIRE_SETUP: &[Difference] = &[];
/// The tables on the emulator.
pub const WIRE_TABLE: &[Difference] = &[];
/// The queues on the emulator.
pub const WIRE_QUEUE: &[Difference] = &[];

/// All of them, by door.
pub const ALL: &[(&str, &[Difference])] = &[
    ("simulator, EC2", SIMULATOR_EC2),
    ("simulator, GitHub", SIMULATOR_GITHUB),
    ("simulator, names", SIMULATOR_NAMES),
    ("simulator, setup", SIMULATOR_SETUP),
    ("simulator, tables", SIMULATOR_TABLE),
    ("simulator, queues", SIMULATOR_QUEUE),
    ("wire, EC2", WIRE_EC2),
    ("wire, GitHub", WIRE_GITHUB),
    ("wire, names", WIRE_NAMES),
    ("wire, setup", WIRE_SETUP),
    ("emulator, tables", WIRE_TABLE),
    ("emulator, queues", WIRE_QUEUE),
];
