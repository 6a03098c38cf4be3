//! What passes that run side by side need to read once.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::task::Poll;

/// Values that are read once per invocation, by whichever pass asks first; the others wait for it.
/// The passes must be those of one [`crate::reaps::terminate_batch::TerminateBatcher`], which goes
/// on polling them while anything moves.
#[derive(Debug)]
pub(crate) struct ReadCache<K, V> {
    /// None while it is being read.
    known: RefCell<BTreeMap<K, Option<V>>>,
}

impl<K, V> Default for ReadCache<K, V> {
    fn default() -> Self {
        Self { known: RefCell::default() }
    }
}

impl<K: Ord + Clone, V: Clone> ReadCache<K, V> {
    /// The value of a key. A failed read is the error of its reader, and the next one reads again.
    pub(crate) async fn get<E>(
        &self,
        key: &K,
        moved: &Cell<bool>,
        read: impl AsyncFnOnce() -> Result<V, E>,
    ) -> Result<V, E> {
        poll_fn(|_| match self.known.borrow().get(key) {
            Some(None) => Poll::Pending,
            _ => Poll::Ready(()),
        })
        .await;
        if let Some(Some(known)) = self.known.borrow().get(key) {
            return Ok(known.clone());
        }
        self.known.borrow_mut().insert(key.clone(), None);
        let answer = read().await;
        match &answer {
            Ok(value) => drop(self.known.borrow_mut().insert(key.clone(), Some(value.clone()))),
            Err(_) => self.forget(key),
        }
        moved.set(true);
        answer
    }

    /// The next one who asks reads it.
    pub(crate) fn forget(&self, key: &K) {
        self.known.borrow_mut().remove(key);
    }
}
