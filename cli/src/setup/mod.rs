//! What a deployment needs to know and what it says: pure rules over AWS's answers.

pub mod network;
pub mod stack;
