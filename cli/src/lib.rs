//! `muster`, the operator's command, without its clients: arguments become requests, answers become text. What is shown
//! and asked is decided here; [`session::World`] is all that it knows of AWS, GitHub and the person.

pub mod app;
pub mod args;
pub mod display;
pub mod doctor;
pub mod failure;
pub mod handbook;
pub mod lambda;
pub mod lists;
pub mod money;
pub mod name;
pub mod page;
pub mod queues;
pub mod redact;
pub mod session;
pub mod setup;
pub mod simulate;
pub mod table;
pub mod ui;
pub mod views;
pub mod words;
pub mod xml;
