//! `muster`, the operator's command, without its clients: it turns arguments into requests, and
//! answers into text. It decides what to show and what to ask the user, and reaches AWS, GitHub and
//! the user only through [`world::World`].

pub mod alarms;
pub mod app;
pub mod args;
pub mod csv;
pub mod display;
pub mod doctor;
pub mod failure;
pub mod handbook;
pub mod help;
pub mod lambda;
pub mod lists;
pub mod money;
pub mod name;
pub mod orders;
pub mod page;
pub mod queues;
pub mod redact;
pub mod session;
pub mod setup;
pub mod simulate;
pub mod sources;
pub mod table;
pub mod trend;
pub mod ui;
pub mod views;
pub mod words;
pub mod world;
pub mod xml;
